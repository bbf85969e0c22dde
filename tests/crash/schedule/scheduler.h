// Runs threads one at a time; a strategy decides at each switch point which. The same strategy with
// the same numbers gives the same execution, store by store.
//
// The threads are real, since worker slots and epochs belong to threads; all but one sleep. A
// thread runs until it reaches a switch point (a store, a fence, a lock, a search in a node that
// others may change), must wait, or ends. A waiting thread is not run until another thread has done
// something; if all remaining threads wait for each other, that is a deadlock and is reported.
//
// A thread that the program under test starts (through pmem::ThreadHost) is a guest: one of the
// scheduled threads, from its start to its end. A run ends when the bodies have and every guest
// sleeps at a condition variable; the next run finds it there, and so does who wakes it meanwhile.
//
// Invariants
//  1. At most one of the threads and the caller of Execute is awake.
//  2. Which thread continues depends on the strategy's answers only, never on time.
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

#include "index/pmem/medium.h"

namespace lodgekv::test {

enum class PointKind : uint8_t {
  kBegin,       // a thread begins, or another one ended and there is a choice
  kWait,        // the thread cannot continue
  kStore,       // after a store to the medium
  kFlush,       // after a flush
  kFence,       // before a fence, and after it
  kCrashPoint,  // a named step
  kCall,        // between two calls of the engine
  kMutex,       // before a mutex is acquired, or a waiter at a condition variable is woken
  kSearch,      // in a node, between a search and the reads of what it found
  kEpoch,       // after the begin of a reader's epoch, and after its end
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
  // Returns the thread that continues: one of `runnable` (a bit per thread, never 0). `current` is
  // the thread at the switch point; if it waits or has ended it is not in `runnable`.
  virtual unsigned Choose(PointKind kind, unsigned current, uint32_t runnable) = 0;
};

class Scheduler final : public pmem::ThreadHost {
 public:
  static constexpr unsigned kMaxThreads = 4;

  // Thrown in a thread of an execution that does not end, after `on_stuck` has returned.
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
    std::vector<Switch> switches;  // the first thread, and each change of thread
    std::array<uint64_t, static_cast<size_t>(PointKind::kCount)> points{};
    bool stuck = false;
    std::string ToString() const;
  };

  // The caller and the threads acquire their worker slots in this order. `guests`: how many threads
  // the program under test may start in addition.
  explicit Scheduler(unsigned threads, unsigned guests = 0);
  ~Scheduler() override;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Calls bodies[i] on thread i; returns when all have ended. Points that are not in `kinds` are
  // not switch points.
  const Run& Execute(std::span<const std::function<void()>> bodies, Strategy& strategy,
                     uint32_t kinds = kAllPoints);
  const Run& run() const { return run_; }

  // pmem::ThreadHost. Outside the scheduler's threads LetRun and Join are runs of the guests alone,
  // which are not counted and in which nothing is switched.
  void Start(const void* owner, std::function<void()> body) override;
  void LetRun() override;
  void Join(const void* owner) override;

  // Called when no thread can continue, or none makes progress. By default prints that and ends the
  // program: a thread inside an engine cannot be unwound.
  std::function<void(const std::string& what)> on_stuck;

  // --- on a thread of a running scheduler; elsewhere these do nothing ---
  // The scheduler of the calling thread; null if it has none.
  static Scheduler* Current();
  static unsigned CurrentThread();
  static void Point(PointKind kind);
  // The caller cannot continue until another thread has done something. False: the thread has no
  // scheduler.
  static bool Wait();
  // The caller sleeps until another thread wakes the sleepers at `condition`. With an `end` in the
  // scheduler's time, the strategy may also let it continue earlier; the clock then advances to
  // `end`, and the result is false.
  static bool SleepAt(const void* condition, std::optional<int64_t> end_ns = {});
  // Wakes guests that sleep there between two runs; for callers outside the scheduler's threads.
  static void WakeGuestsAt(const void* condition);
  // Wakes all sleepers, or the one that the strategy chooses.
  static void WakeAt(const void* condition, bool all);
  // The time that clocks show on scheduled threads: it advances only when a sleep reaches its end.
  int64_t now_ns() const { return now_ns_; }
  // Begins a reader's epoch; WaitForEpochs waits for those of others.
  static void EnterEpoch();
  static void LeaveEpoch();
  // False: the thread has no scheduler, the caller must wait itself.
  static bool WaitForEpochs();
  // Deliberate mistakes: epochs, or mutexes, are not waited for.
  bool ignores_epochs = false;
  bool ignores_mutexes = false;

  // While this object exists the calling thread is not switched: what it does is not part of the
  // execution.
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
  void Go(Strategy& strategy);
  void Rest(Thread& self);
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
  bool AllAtRest() const;
  Thread* GuestOf(const void* owner) const;
  void Report(const std::string& what);
  [[noreturn]] void Fail(const std::string& what);

  // Only the one thread that is awake looks.
  static inline std::vector<Scheduler*> with_guests;

  const unsigned bodies_;  // threads_ behind them are for guests
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
