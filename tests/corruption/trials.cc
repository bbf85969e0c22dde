#include "tests/corruption/trials.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "index/pmem/internal/bad_page.h"
#include "index/pmem/internal/metadata_guard.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

// A trial takes a millisecond. Measured in processor time, so that a busy machine does not look
// like a hang; wall time catches threads that sleep forever.
constexpr int kCpuSeconds = 10 * kSanitizerSlowdown;
constexpr int kWallSeconds = 120 * kSanitizerSlowdown;
constexpr size_t kMessageBytes = 400;

struct Slot {
  std::atomic<uint32_t> done;
  Effect effect;
  std::array<char, kMessageBytes + 1> message;
};

// Slots shared by parent and child.
class SharedSlots {
 public:
  explicit SharedSlots(size_t count) : bytes_(std::max<size_t>(count, 1) * sizeof(Slot)) {
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    slots_ = {new (at) Slot[count](), count};
  }
  ~SharedSlots() { munmap(slots_.data(), bytes_); }
  SharedSlots(const SharedSlots&) = delete;
  SharedSlots& operator=(const SharedSlots&) = delete;

  std::span<Slot> slots() const { return slots_; }

 private:
  const size_t bytes_;
  std::span<Slot> slots_;
};

void LimitTrial() {
  const itimerval cpu{{0, 0}, {kCpuSeconds, 0}};
  setitimer(ITIMER_PROF, &cpu, nullptr);
  alarm(kWallSeconds);
}

// An exception ends the process: it must not unwind into the parent's tests.
[[noreturn]] void RunChild(std::span<Slot> slots, size_t from, int said,
                           const std::function<Verdict(size_t)>& try_one) noexcept {
  const rlimit core{0, 0};
  setrlimit(RLIMIT_CORE, &core);
  if (dup2(said, STDERR_FILENO) < 0) _exit(EXIT_FAILURE);
  for (size_t i = from; i < slots.size(); ++i) {
    LimitTrial();
    if (ftruncate(STDERR_FILENO, 0) != 0) _exit(EXIT_FAILURE);
    const Verdict verdict = try_one(i);
    slots[i].effect = verdict.effect;
    verdict.message.copy(slots[i].message.data(), kMessageBytes);
    slots[i].done.store(1, std::memory_order_release);
  }
  _exit(0);
}

// A file in memory that captures a trial's stderr.
class Said {
 public:
  Said() : fd_(memfd_create("stderr of a trial", MFD_CLOEXEC)) {
    if (fd_ < 0 || fcntl(fd_, F_SETFL, O_APPEND) != 0) {
      throw std::system_error(errno, std::generic_category(), "memfd_create");
    }
  }
  ~Said() { close(fd_); }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;

  int fd() const { return fd_; }
  std::string Text() const {
    std::string text(kMessageBytes, '\0');
    const ssize_t bytes = pread(fd_, text.data(), text.size(), 0);
    text.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
    return text;
  }

 private:
  const int fd_;
};

Verdict VerdictOfDeath(int status, const std::string& said) {
  if (!WIFSIGNALED(status)) {
    const int code = WEXITSTATUS(status);
    if (code == pmem::kExitBadPage || code == pmem::kExitDamagedMetadata) {
      return {Effect::kRefused, said};
    }
    return {Effect::kDied,
            absl::StrCat("it ended with status ", WEXITSTATUS(status), ", saying: ", said)};
  }
  const int signal = WTERMSIG(status);
  if (signal == SIGPROF || signal == SIGALRM) {
    return {Effect::kHung, absl::StrCat("it does not end within ", kCpuSeconds,
                                        " s of processor time, or ", kWallSeconds, " s")};
  }
  return {Effect::kDied,
          absl::StrCat("it ended by signal ", strsignal(signal), ", saying: ", said)};
}

}  // namespace

std::string_view EffectName(Effect effect) {
  switch (effect) {
    case Effect::kNone: return "no effect";
    case Effect::kRefused: return "refused";
    case Effect::kQuarantined: return "quarantined";
    case Effect::kNamed: return "named by Check";
    case Effect::kMissing: return "MISSING";
    case Effect::kWrong: return "WRONG";
    case Effect::kUnnamed: return "UNNAMED";
    case Effect::kDied: return "DIED";
    case Effect::kHung: return "HUNG";
  }
  return "?";
}

std::vector<Verdict> TryAll(size_t trials, const std::function<Verdict(size_t)>& try_one) {
  const SharedSlots shared(trials);
  const Said said;
  std::vector<Verdict> verdicts;
  while (verdicts.size() < trials) {
    const pid_t child = fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) RunChild(shared.slots(), verdicts.size(), said.fd(), try_one);
    int status = 0;
    waitpid(child, &status, 0);
    for (size_t i = verdicts.size(); i < trials; ++i) {
      const Slot& slot = shared.slots()[i];
      if (slot.done.load(std::memory_order_acquire) == 0) break;
      verdicts.push_back({slot.effect, slot.message.data()});
    }
    if (verdicts.size() < trials) verdicts.push_back(VerdictOfDeath(status, said.Text()));
  }
  return verdicts;
}

}  // namespace lodgekv::test
