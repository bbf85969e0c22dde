// Threads of which one runs at a time, and a strategy that decides at each switch point which: the
// same strategy with the same numbers gives the same run, store by store.
//
// The threads are real ones, since worker slots and epochs belong to threads; all but one of them
// sleep. A thread goes on until it comes to a switch point (a store, a fence, a lock, a search in a
// node that others may change), must wait, or ends. What waits is not run until another thread has
// done something; when all that live wait for each other, that is a deadlock, and reported.
//
// Invariants
//  1. At most one of the threads and the caller of Run is awake.
//  2. Which thread goes on depends on the strategy's answers only, never on time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lodgekv::test {

enum class PointKind : uint8_t {
  kBegin,       // a thread begins, or there is a choice because another one ended
  kWait,        // the thread cannot go on
  kStore,       // behind a store to the medium
  kFlush,       // behind a flush
  kFence,       // before a fence, and behind it
  kCrashPoint,  // a named step
  kCall,        // between two calls of the engine
  kMutex,       // before a mutex is taken, or who waits at a condition variable is woken
  kSearch,      // in a node, between its search and what is read of it then
  kEpoch,       // behind the begin of a reader's epoch, and behind its end
  kRecord,      // before a record is verified
  kCount,
};
std::string_view PointName(PointKind kind);

inline constexpr uint32_t BitOf(PointKind kind) { return uint32_t{1} << static_cast<int>(kind); }
inline constexpr uint32_t kAllPoints = ~uint32_t{0};

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual void Begin(unsigned threads) = 0;
  // The thread that goes on: one of `runnable` (bit per thread, never 0). `current` is the one that
  // came to the point; when it waits or has ended it is not in `runnable`.
  virtual unsigned Choose(PointKind kind, unsigned current, uint32_t runnable) = 0;
};

class Scheduler {
 public:
  static constexpr unsigned kMaxThreads = 4;

  // Thrown in a thread of a run that does not end, where `on_stuck` has returned.
  struct Stuck : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  struct Switch {
    uint64_t step;
    uint8_t to;
    PointKind kind;
    bool operator==(const Switch&) const = default;
  };
  struct Run {
    uint64_t steps = 0;
    std::vector<Switch> switches;  // who began, and each change of thread
    std::array<uint64_t, static_cast<size_t>(PointKind::kCount)> points{};
    bool stuck = false;
    std::string ToString() const;
  };

  // The caller and the threads take their worker slots in this order.
  explicit Scheduler(unsigned threads);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Calls bodies[i] on thread i; returns when all have ended. At points that are not in `kinds`
  // nothing is switched.
  const Run& Execute(std::span<const std::function<void()>> bodies, Strategy& strategy,
                     uint32_t kinds = kAllPoints);
  const Run& run() const { return run_; }

  // Told when nobody can go on, or nobody gets anywhere. By default it says so and ends the
  // program: a thread within an engine cannot be unwound.
  std::function<void(const std::string& what)> on_stuck;

  // --- on a thread of a running scheduler; elsewhere these do nothing ---
  // The scheduler that decides for the calling thread, null if none does.
  static Scheduler* Current();
  static unsigned CurrentThread();
  static void Point(PointKind kind);
  // The caller cannot go on until another thread has done something. False: not on such a thread.
  static bool Wait();
  // The caller sleeps until another thread wakes those at `condition`. With an `end` of the
  // scheduler's time the strategy may also let it go on before; then it is as late as that, and
  // false.
  static bool SleepAt(const void* condition, std::optional<int64_t> end_ns = {});
  // Wakes all that sleep there, or the one that the strategy chooses.
  static void WakeAt(const void* condition, bool all);
  // What a clock shows on such a thread: it moves only where somebody has slept to the end.
  int64_t now_ns() const { return now_ns_; }
  // A reader's epoch, and waiting for those of others.
  static void EnterEpoch();
  static void LeaveEpoch();
  // False: not on such a thread, the caller waits by itself.
  static bool WaitForEpochs();
  // Mistakes made on purpose: epochs, or mutexes, are not waited for.
  bool ignores_epochs = false;
  bool ignores_mutexes = false;

  // While it lives the calling thread is not switched: what it does is no part of the run.
  class Aside {
   public:
    Aside();
    ~Aside();
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    static bool Active();

   private:
    Scheduler* const scheduler_;
  };

 private:
  struct Thread;

  void Work(Thread& self);
  void Pass(PointKind kind);
  void WaitForOthers();
  bool SleepUntilWoken(const void* condition, std::optional<int64_t> end_ns);
  void Wake(const void* condition, bool all);
  void WaitForEpochsOfOthers();
  void GiveWay(Thread& self);
  void End(Thread& self);
  void SwitchTo(unsigned next, PointKind kind);
  void Sleep(Thread& self);
  uint32_t Runnable() const;
  bool AnyLive() const;
  void Report(const std::string& what);
  [[noreturn]] void Fail(const std::string& what);

  std::vector<std::unique_ptr<Thread>> threads_;
  Strategy* strategy_ = nullptr;
  uint32_t kinds_ = kAllPoints;
  unsigned current_ = 0;
  uint64_t progress_ = 0;
  uint64_t calls_ = 0;
  int64_t now_ns_ = 0;
  Run run_;
  std::atomic<uint32_t> all_ended_{0};
};

}  // namespace lodgekv::test
