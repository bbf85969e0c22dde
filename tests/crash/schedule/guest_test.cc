// Threads that the program under test starts are scheduled as its callers are.
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "index/node/background_worker.h"
#include "index/pmem/medium.h"
#include "tests/crash/schedule/scheduled_tracer.h"
#include "tests/crash/schedule/scheduler.h"
#include "tests/crash/schedule/strategies.h"
#include "tests/support/arena_memory.h"

namespace lodgekv::test {
namespace {

using Bodies = std::vector<std::function<void()>>;
using Progress = BackgroundWorker::Progress;
using Result = absl::StatusOr<Progress>;

// An engine in small: a medium, traced, and a worker in the background.
class Program {
 public:
  // Without a host the worker works in place.
  explicit Program(pmem::ThreadHost* host)
      : tracer_(memory_.span(), {}, host), medium_({.tracer = &tracer_}) {
    worker_.emplace("guest", &tracer_);
  }
  ~Program() { worker_.reset(); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  ScheduledTracer& tracer() { return tracer_; }
  BackgroundWorker& worker() { return *worker_; }
  pmem::Word& word(size_t i) { return reinterpret_cast<pmem::Word*>(memory_.span().data())[i]; }
  uint64_t value(size_t i) { return word(i).Load(); }
  void Store(size_t i, uint64_t value) { medium_.Store(word(i), value); }
  void Persist(size_t i) {
    medium_.Flush(&word(i), sizeof(pmem::Word));
    medium_.Fence();
  }
  void StopWorker() { worker_.reset(); }

 private:
  ArenaMemory memory_{4096};
  ScheduledTracer tracer_;
  pmem::Medium medium_;
  std::optional<BackgroundWorker> worker_;
};

constexpr size_t kCounter = 0;
// Of other lines.
constexpr size_t kOfTask = 8;
constexpr size_t kOfCaller = 16;

// Raises the counter and, between its load and its store, makes a store elsewhere: a mistake where
// another thread does the same.
void RaiseWithoutLock(Program& program, size_t elsewhere) {
  const uint64_t seen = program.value(kCounter);
  program.Store(elsewhere, 1);
  program.Store(kCounter, seen + 1);
  program.Persist(elsewhere);
}

// Runs a caller that posts RaiseWithoutLock and does it itself under every schedule with two
// preemptions. `at_end` is called behind each.
void RaiseTogether(bool scheduled, const std::function<void(Program&)>& at_begin,
                   const std::function<void(Program&)>& at_end) {
  Scheduler scheduler(1, 1);
  BoundedExhaustive strategy(2);
  do {
    Program program(scheduled ? &scheduler : nullptr);
    at_begin(program);
    const Bodies bodies = {[&] {
      program.worker().Post([&]() -> Result {
        RaiseWithoutLock(program, kOfTask);
        return Progress::kDone;
      });
      RaiseWithoutLock(program, kOfCaller);
    }};
    scheduler.Execute(bodies, strategy);
    at_end(program);
  } while (strategy.Next());
}

// The canary: a task in the background that takes no lock. Where tasks are run in place nobody
// notices.
TEST(GuestTest, ARaceWithATaskIsFoundOnlyWhereItsThreadIsScheduled) {
  for (const bool scheduled : {false, true}) {
    unsigned lost = 0;
    unsigned kept = 0;
    RaiseTogether(
        scheduled, [](Program&) {},
        [&](Program& program) { ++(program.value(kCounter) == 1 ? lost : kept); });
    EXPECT_EQ(lost > 0, scheduled);
    EXPECT_GT(kept, 0U);
  }
}

// At a fence of the task there are stores of the caller that are not durable, and the other way.
TEST(GuestTest, ACrashMayComeAtEachStepOfATask) {
  for (const bool scheduled : {false, true}) {
    std::set<unsigned> fences_beside_the_other;  // of threads
    RaiseTogether(
        scheduled,
        [&](Program& program) {
          program.tracer().before_fence = [&] {
            std::set<uint32_t> pending;
            const CrashTracer& tracer = program.tracer().inner();
            for (const uint32_t line : tracer.dirty_lines()) {
              for (const PendingStore& store : tracer.StoresTo(line)) pending.insert(store.thread);
            }
            if (pending.size() > 1) fences_beside_the_other.insert(Scheduler::CurrentThread());
          };
        },
        [](Program&) {});
    EXPECT_EQ(fences_beside_the_other,
              scheduled ? std::set<unsigned>({0, 1}) : std::set<unsigned>());
  }
}

// Who waits for the worker holds what the task needs.
TEST(GuestTest, ADeadlockWithATaskIsReported) {
  for (const bool holds : {false, true}) {
    Scheduler scheduler(1, 1);
    unsigned deadlocks = 0;
    scheduler.on_stuck = [&](const std::string&) { ++deadlocks; };
    std::mutex mutex;
    Program program(&scheduler);
    const Bodies bodies = {[&] {
      std::unique_lock lock(mutex);
      program.worker().Post([&]() -> Result {
        const std::lock_guard task_lock(mutex);
        return Progress::kDone;
      });
      if (!holds) lock.unlock();
      program.worker().WaitUntilIdle();
    }};
    OneAfterTheOther strategy;
    EXPECT_EQ(scheduler.Execute(bodies, strategy).stuck, holds);
    EXPECT_EQ(deadlocks, holds ? 1U : 0U);
  }
}

TEST(GuestTest, TheSameSeedGivesTheSameSchedule) {
  const auto run = [](uint64_t seed) {
    Scheduler scheduler(2, 1);
    Program program(&scheduler);
    const auto body = [&] {
      for (size_t i = 0; i < 5; ++i) {
        program.worker().Post([&]() -> Result {
          program.Store(kOfTask, 1);
          return Progress::kDone;
        });
        program.Store(kOfCaller, i);
      }
    };
    const Bodies bodies = {body, body};
    RandomPriorities strategy(Random("guest", seed), 3, 100);
    return scheduler.Execute(bodies, strategy).ToString();
  };
  std::set<std::string> different;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::string text = run(seed);
    EXPECT_EQ(run(seed), text);
    different.insert(text);
  }
  EXPECT_GT(different.size(), 10U);
}

// What is posted between two runs is done in the next, and a run ends when it is done.
TEST(GuestTest, LivesOnFromRunToRun) {
  Scheduler scheduler(1, 1);
  Program program(&scheduler);
  uint64_t done = 0;
  const auto post = [&] {
    program.worker().Post([&]() -> Result {
      program.Store(kOfTask, ++done);
      return Progress::kDone;
    });
  };
  OneAfterTheOther strategy;
  const Bodies posts = {post};
  const Bodies stores = {[&] { program.Store(kOfCaller, 1); }};
  scheduler.Execute(posts, strategy);
  EXPECT_EQ(done, 1U);
  post();
  EXPECT_EQ(done, 1U);
  scheduler.Execute(stores, strategy);
  EXPECT_EQ(done, 2U);
  post();
  const std::string before = scheduler.run().ToString();
  program.worker().WaitUntilIdle();
  EXPECT_EQ(done, 3U);
  EXPECT_EQ(scheduler.run().ToString(), before);
  post();
  program.StopWorker();
  EXPECT_EQ(done, 3U);
  Program another(&scheduler);  // its worker has the place
  another.worker().Post([]() -> Result { return Progress::kDone; });
  another.worker().WaitUntilIdle();
  EXPECT_EQ(another.worker().counters().done, 1U);
}

TEST(GuestTest, StopsInARun) {
  Scheduler scheduler(1, 1);
  BoundedExhaustive strategy(2);
  std::set<unsigned> seen;
  do {
    Program program(&scheduler);
    unsigned steps = 0;
    const Bodies bodies = {[&] {
      program.worker().Post([&]() -> Result {
        program.Store(kOfTask, ++steps);
        return steps < 3 ? Progress::kMore : Progress::kDone;
      });
      program.Store(kOfCaller, 1);
      program.worker().Stop();
      const unsigned at_stop = steps;
      program.Store(kOfCaller, 2);
      EXPECT_EQ(steps, at_stop);
      seen.insert(steps);
    }};
    ASSERT_FALSE(scheduler.Execute(bodies, strategy).stuck) << scheduler.run().ToString();
  } while (strategy.Next());
  EXPECT_EQ(seen, std::set<unsigned>({0, 1, 2, 3}));
}

TEST(GuestTest, OneTooManyIsReported) {
  Scheduler scheduler(1);
  std::string what;
  scheduler.on_stuck = [&](const std::string& text) { what = text; };
  scheduler.Start(&what, [] {});
  EXPECT_NE(what.find("more threads"), std::string::npos) << what;
}

}  // namespace
}  // namespace lodgekv::test
