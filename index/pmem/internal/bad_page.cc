#include "index/pmem/internal/bad_page.h"

#include <signal.h>

#include <array>
#include <atomic>
#include <mutex>

#include "index/pmem/last_words.h"

namespace lodgekv::pmem {
namespace {

struct Watched {
  std::atomic<const char*> base{nullptr};  // stored last
  uint64_t bytes = 0;
  std::array<char, kLastPathBytes> path{};
};

std::array<Watched, 16> g_watched;
std::mutex g_mutex;
struct sigaction g_before;
constinit thread_local const char* t_opening = nullptr;

[[noreturn]] void Refuse(std::string_view path, const uint64_t* offset) {
  LastWords words;
  words.Add("lodgekv pool: ");
  words.Add(path);
  if (offset != nullptr) {
    words.Add(": the page at offset ");
    words.AddNumber(*offset);
  } else {
    words.Add(": a page that is needed to open it");
  }
  words.Add(
      " cannot be read or written: its medium reports an error, the file was cut short, or its "
      "file system has no room to write it. The process ends with exit code ");
  words.AddNumber(kExitBadPage);
  words.Add(
      " and changes nothing more. Before a restart see \"An unreadable page\" in "
      "docs/crash_model.md\n");
  words.End(kExitBadPage);
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
  // The access is retried, and fails as if there were no handler.
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

WatchedPages::WatchedPages(const char* base, uint64_t bytes, std::string_view path) {
  ListenOnce();
  const std::lock_guard lock(g_mutex);
  for (place_ = 0; place_ < g_watched.size(); ++place_) {
    Watched& watched = g_watched[place_];
    if (watched.base.load(std::memory_order_relaxed) != nullptr) continue;
    watched.bytes = bytes;
    const size_t length = path.copy(watched.path.data(), kLastPathBytes - 1);
    watched.path[length] = '\0';
    watched.base.store(base, std::memory_order_release);
    return;
  }
}

WatchedPages::~WatchedPages() {
  const std::lock_guard lock(g_mutex);
  if (place_ < g_watched.size()) g_watched[place_].base.store(nullptr);
}

OpeningPool::OpeningPool(const char* path) {
  ListenOnce();
  t_opening = path;
}

OpeningPool::~OpeningPool() { t_opening = nullptr; }

}  // namespace lodgekv::pmem
