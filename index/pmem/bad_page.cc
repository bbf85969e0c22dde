#include "index/pmem/bad_page.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

namespace lodgekv::pmem {
namespace {

constexpr size_t kPathBytes = 512;
constexpr int kPatienceMs = 1'000;

struct Watched {
  std::atomic<const char*> base{nullptr};  // stored last
  uint64_t bytes = 0;
  std::array<char, kPathBytes> path{};
};

std::array<Watched, 16> g_watched;
std::mutex g_mutex;
struct sigaction g_before;
std::atomic<bool> g_refusing{false};
constinit thread_local const char* t_opening = nullptr;

// In a signal handler little is allowed: no allocation, no formatting.
class Message {
 public:
  void Add(std::string_view part) {
    const size_t n = std::min(part.size(), text_.size() - used_);
    std::memcpy(text_.data() + used_, part.data(), n);
    used_ += n;
  }
  void AddNumber(uint64_t number) {
    std::array<char, 20> digits;
    size_t at = digits.size();
    do digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    Add({digits.data() + at, digits.size() - at});
  }
  // Dropped if nobody reads what is there already.
  void Write() const {
    pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (poll(&out, 1, kPatienceMs) == 1) (void)!write(STDERR_FILENO, text_.data(), used_);
  }

 private:
  std::array<char, kPathBytes + 512> text_;
  size_t used_ = 0;
};

void Tell(std::string_view path, const uint64_t* offset) {
  Message message;
  message.Add("lodgekv pool: ");
  message.Add(path);
  if (offset != nullptr) {
    message.Add(": the page at offset ");
    message.AddNumber(*offset);
  } else {
    message.Add(": a page that is needed to open it");
  }
  message.Add(
      " cannot be read or written: its medium reports an error, or the file was cut short. The "
      "process ends with exit code ");
  message.AddNumber(kExitBadPage);
  message.Add(
      " and changes nothing more. Before a restart see \"An unreadable page\" in "
      "docs/crash_model.md\n");
  message.Write();
}

// One thread speaks; others that meet the page wait until it has ended them.
[[noreturn]] void Refuse(std::string_view path, const uint64_t* offset) {
  if (g_refusing.exchange(true)) {
    for (;;) pause();
  }
  Tell(path, offset);
  _exit(kExitBadPage);
}

void OnBusError(int, siginfo_t* info, void*) {
  if (info->si_code <= 0) {  // sent by a process: not about a page
    sigaction(SIGBUS, &g_before, nullptr);
    raise(SIGBUS);
    return;
  }
  const char* at = static_cast<const char*>(info->si_addr);
  for (const Watched& watched : g_watched) {
    const char* base = watched.base.load(std::memory_order_acquire);
    if (base == nullptr || at < base || at >= base + watched.bytes) continue;
    const auto offset = static_cast<uint64_t>(at - base);
    Refuse(watched.path.data(), &offset);
  }
  if (t_opening != nullptr) Refuse(t_opening, nullptr);
  // The access is tried again, and fails as if nobody had listened.
  sigaction(SIGBUS, &g_before, nullptr);
}

void Listen() {
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &g_before);
}

void ListenOnce() {
  static std::once_flag listening;
  std::call_once(listening, Listen);
}

}  // namespace

void WatchPages(const char* base, uint64_t bytes, std::string_view path) {
  ListenOnce();
  const std::lock_guard lock(g_mutex);
  for (Watched& watched : g_watched) {
    if (watched.base.load(std::memory_order_relaxed) != nullptr) continue;
    watched.bytes = bytes;
    const size_t length = path.copy(watched.path.data(), kPathBytes - 1);
    watched.path[length] = '\0';
    watched.base.store(base, std::memory_order_release);
    return;
  }
}

void ForgetPages(const char* base) {
  const std::lock_guard lock(g_mutex);
  for (Watched& watched : g_watched) {
    if (watched.base.load(std::memory_order_relaxed) == base) watched.base.store(nullptr);
  }
}

OpeningPool::OpeningPool(const char* path) {
  ListenOnce();
  t_opening = path;
}

OpeningPool::~OpeningPool() { t_opening = nullptr; }

}  // namespace lodgekv::pmem
