// The scheduler's own tests, on programs whose schedules can be counted.
#include "tests/crash/schedule/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

#include "index/node/epoch.h"
#include "index/node/version_lock.h"
#include "tests/crash/lab/isolated.h"
#include "tests/crash/schedule/scheduled_calls.h"
#include "tests/crash/schedule/strategies.h"

namespace lodgekv::test {
namespace {

using Bodies = std::vector<std::function<void()>>;

void Step() { Scheduler::Point(PointKind::kStore); }

// A counter that two threads increment, with a switch point between load and store.
struct Counter {
  int value = 0;
  void Raise() {
    const int seen = value;
    Step();
    value = seen + 1;
  }
};

TEST(SchedulerTest, RunsOneThreadAtATime) {
  Scheduler scheduler(3);
  std::atomic<int> awake{0};
  int together = 0;
  const auto body = [&] {
    for (int i = 0; i < 20; ++i) {
      together += ++awake > 1 ? 1 : 0;
      --awake;
      Step();
    }
  };
  const Bodies bodies(3, body);
  for (uint64_t i = 0; i < 50; ++i) {
    RandomPriorities strategy(Random("one at a time", i), 3, 60);
    EXPECT_EQ(scheduler.Execute(bodies, strategy).steps, 60U);
  }
  EXPECT_EQ(together, 0);
}

TEST(SchedulerTest, TheSameSeedGivesTheSameSchedule) {
  const auto run = [](uint64_t seed) {
    Scheduler scheduler(3);
    const Bodies bodies(3, [] {
      for (int i = 0; i < 20; ++i) Step();
    });
    RandomPriorities strategy(Random("same seed", seed), 3, 60);
    return scheduler.Execute(bodies, strategy).switches;
  };
  std::set<std::string> different;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_EQ(run(seed), run(seed));
    Scheduler::Run as_text;
    as_text.switches = run(seed);
    different.insert(as_text.ToString());
  }
  EXPECT_GT(different.size(), 5U);
}

TEST(SchedulerTest, ARaceIsFoundByPriorities) {
  Scheduler scheduler(2);
  unsigned lost = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    Counter counter;
    const Bodies bodies(2, [&] { counter.Raise(); });
    RandomPriorities strategy(Random("race", i), 1, 2);
    scheduler.Execute(bodies, strategy);
    lost += counter.value == 1 ? 1 : 0;
  }
  EXPECT_GT(lost, 10U);
  EXPECT_LT(lost, 100U);
}

// With n switch points in each of two threads there are 2 schedules without preemption, and 2 n
// more with one.
TEST(SchedulerTest, ExhaustiveMeansEverySchedule) {
  constexpr uint64_t kSteps = 4;
  Scheduler scheduler(2);
  const Bodies bodies(2, [] {
    for (uint64_t i = 0; i < kSteps; ++i) Step();
  });
  for (const unsigned preemptions : {0U, 1U, 2U}) {
    BoundedExhaustive strategy(preemptions);
    std::set<std::string> seen;
    uint64_t runs = 0;
    do {
      const std::string text = scheduler.Execute(bodies, strategy).ToString();
      if (strategy.repeats()) {
        EXPECT_TRUE(seen.contains(text)) << text;
        continue;
      }
      EXPECT_TRUE(seen.insert(text).second) << text;
      ++runs;
    } while (strategy.Next());
    // The second of two preemptions is at a step of the other thread, after its first.
    const uint64_t expected[] = {2, 2 + 2 * kSteps, 2 + 2 * kSteps + 2 * kSteps * kSteps};
    EXPECT_EQ(runs, expected[preemptions]);
  }
}

TEST(SchedulerTest, ARaceNeedsOnePreemption) {
  Scheduler scheduler(2);
  const auto lost = [&](unsigned preemptions) {
    unsigned count = 0;
    BoundedExhaustive strategy(preemptions);
    do {
      Counter counter;
      const Bodies bodies(2, [&] { counter.Raise(); });
      scheduler.Execute(bodies, strategy);
      count += counter.value == 1 ? 1 : 0;
    } while (strategy.Next());
    return count;
  };
  EXPECT_EQ(lost(0), 0U);
  EXPECT_GT(lost(1), 0U);
}

TEST(SchedulerTest, AMutexIsWaitedFor) {
  Scheduler scheduler(3);
  BoundedExhaustive strategy(2);
  uint64_t waits = 0;
  do {
    Counter counter;
    std::mutex mutex;
    const Bodies bodies(3, [&] {
      const std::lock_guard lock(mutex);
      counter.Raise();
    });
    const auto& run = scheduler.Execute(bodies, strategy);
    waits += run.points[static_cast<size_t>(PointKind::kWait)];
    ASSERT_EQ(counter.value, 3) << run.ToString();
  } while (strategy.Next());
  EXPECT_GT(waits, 0U);
}

TEST(SchedulerTest, AVersionLockIsWaitedFor) {
  Scheduler scheduler(2);
  const ScheduledWaits waits;
  BoundedExhaustive strategy(3);
  do {
    int words[2] = {0, 0};
    VersionLock lock;
    const Bodies bodies = {[&] {
                             for (Backoff backoff;; backoff.Pause()) {
                               if (lock.TryUpgrade(lock.ReadBegin())) break;
                             }
                             lock.BeginPublish();
                             words[0] = 1;
                             Step();
                             words[1] = 1;
                             lock.EndPublish();
                             Step();
                             lock.Unlock();
                           },
                           [&] {
                             int seen[2];
                             uint64_t snapshot;
                             do {
                               snapshot = lock.ReadBegin();
                               seen[0] = words[0];
                               Step();
                               seen[1] = words[1];
                             } while (!lock.Validate(snapshot));
                             EXPECT_EQ(seen[0], seen[1]);
                           }};
    scheduler.Execute(bodies, strategy);
  } while (strategy.Next());
}

// Nobody reads what is freed after the wait; without the wait a reader does.
TEST(SchedulerTest, EpochsAreWaitedFor) {
  Scheduler scheduler(2);
  for (const bool ignored : {false, true}) {
    scheduler.ignores_epochs = ignored;
    unsigned seen_freed = 0;
    BoundedExhaustive strategy(2);
    do {
      bool linked = true;
      bool freed = false;
      const Bodies bodies = {[&] {
                               const EpochGuard guard;
                               if (!linked) return;
                               Step();
                               seen_freed += freed ? 1 : 0;
                             },
                             [&] {
                               linked = false;
                               WaitForEpochs();
                               freed = true;
                             }};
      scheduler.Execute(bodies, strategy);
    } while (strategy.Next());
    EXPECT_EQ(seen_freed > 0, ignored);
  }
}

// Two threads wait for one item each; a third provides them.
TEST(SchedulerTest, AConditionVariableIsWaitedFor) {
  Scheduler scheduler(3);
  BoundedExhaustive strategy(2);
  std::set<std::string> orders;
  do {
    std::mutex mutex;
    std::condition_variable changed;
    int items = 0;
    std::string order;
    const auto take = [&](char who) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return items > 0; });
      --items;
      order += who;
    };
    const Bodies bodies = {[&] { take('a'); }, [&] { take('b'); },
                           [&] {
                             for (int i = 0; i < 2; ++i) {
                               {
                                 const std::lock_guard lock(mutex);
                                 ++items;
                               }
                               changed.notify_one();
                             }
                           }};
    ASSERT_FALSE(scheduler.Execute(bodies, strategy).stuck) << scheduler.run().ToString();
    orders.insert(order);
  } while (strategy.Next());
  EXPECT_THAT(orders, ::testing::UnorderedElementsAre("ab", "ba"));
}

// A thread that checks before it locks and waits may miss the only notification.
TEST(SchedulerTest, ALostWakeUpIsADeadlock) {
  for (const bool checks_under_lock : {false, true}) {
    Scheduler scheduler(2);
    unsigned deadlocks = 0;
    scheduler.on_stuck = [&](const std::string&) { ++deadlocks; };
    BoundedExhaustive strategy(2);
    do {
      std::mutex mutex;
      std::condition_variable changed;
      bool ready = false;
      const Bodies bodies = {[&] {
                               if (!checks_under_lock && ready) return;
                               std::unique_lock lock(mutex);
                               if (checks_under_lock && ready) return;
                               changed.wait(lock);
                             },
                             [&] {
                               const std::lock_guard lock(mutex);
                               ready = true;
                               changed.notify_all();
                             }};
      scheduler.Execute(bodies, strategy);
    } while (strategy.Next());
    EXPECT_EQ(deadlocks > 0, !checks_under_lock);
  }
}

// Time advances when a thread sleeps to its end, and to that time.
TEST(SchedulerTest, AWaitThatEndsByItselfMayEndEither) {
  using Clock = std::chrono::steady_clock;
  Scheduler scheduler(2);
  BoundedExhaustive strategy(2);
  std::set<std::pair<bool, Clock::duration>> seen;
  do {
    std::mutex mutex;
    std::condition_variable changed;
    bool ready = false;
    const Bodies bodies = {[&] {
                             const Clock::time_point begin = Clock::now();
                             std::unique_lock lock(mutex);
                             const bool found = changed.wait_for(lock, std::chrono::hours(1),
                                                                 [&] { return ready; });
                             seen.emplace(found, Clock::now() - begin);
                           },
                           [&] {
                             for (int i = 0; i < 4; ++i) Step();
                             const std::lock_guard lock(mutex);
                             ready = true;
                             changed.notify_one();
                           }};
    ASSERT_FALSE(scheduler.Execute(bodies, strategy).stuck) << scheduler.run().ToString();
  } while (strategy.Next());
  EXPECT_THAT(seen,
              ::testing::IsSupersetOf({std::pair(true, Clock::duration(0)),
                                       std::pair(false, Clock::duration(std::chrono::hours(1)))}));
  for (const auto& [found, took] : seen) EXPECT_LE(took, std::chrono::hours(1));
}

TEST(SchedulerTest, WhoSleepsTakesNoTime) {
  Scheduler scheduler(2);
  bool flag = false;
  std::chrono::system_clock::duration took{};
  const Bodies bodies = {[&] {
                           const auto begin = std::chrono::system_clock::now();
                           while (!flag) std::this_thread::sleep_for(std::chrono::minutes(7));
                           took = std::chrono::system_clock::now() - begin;
                         },
                         [&] {
                           for (int i = 0; i < 5; ++i) Step();
                           flag = true;
                         }};
  OneAfterTheOther strategy;
  EXPECT_FALSE(scheduler.Execute(bodies, strategy).stuck);
  EXPECT_GE(took, std::chrono::minutes(7));
  EXPECT_EQ(took % std::chrono::minutes(7), std::chrono::minutes(0));
}

TEST(SchedulerTest, ADeadlockIsReported) {
  Scheduler scheduler(2);
  unsigned deadlocks = 0;
  std::string what;
  scheduler.on_stuck = [&](const std::string& text) {
    ++deadlocks;
    what = text;
  };
  unsigned runs = 0;
  BoundedExhaustive strategy(1);
  do {
    bool taken[2] = {false, false};
    const auto lock_both = [&](int first) {
      for (const int i : {first, 1 - first}) {
        while (taken[i]) Scheduler::Wait();
        taken[i] = true;
        Step();
      }
      taken[0] = taken[1] = false;
    };
    const Bodies bodies = {[&] { lock_both(0); }, [&] { lock_both(1); }};
    EXPECT_LE(scheduler.Execute(bodies, strategy).steps, 50U);
    ++runs;
  } while (strategy.Next());
  EXPECT_GT(deadlocks, 0U);
  EXPECT_LT(deadlocks, runs);
  EXPECT_THAT(what, ::testing::HasSubstr("deadlock"));
}

TEST(SchedulerTest, WhatNeverEndsIsReported) {
  Scheduler scheduler(1);
  std::string what;
  scheduler.on_stuck = [&](const std::string& text) { what = text; };
  const Bodies bodies = {[] {
    for (;;) Step();
  }};
  OneAfterTheOther strategy;
  EXPECT_TRUE(scheduler.Execute(bodies, strategy).stuck);
  EXPECT_THAT(what, ::testing::HasSubstr("has not ended"));
}

TEST(SchedulerTest, AnEngineThatIsStuckEndsTheProgram) {
  const IsolatedResult result = RunIsolated(20, []() -> std::string {
    Scheduler scheduler(1);
    std::mutex mutex;
    OneAfterTheOther strategy;
    const Bodies bodies = {[&] {
      mutex.lock();
      mutex.lock();
    }};
    scheduler.Execute(bodies, strategy);
    return "it ended";
  });
  EXPECT_THAT(result.death, ::testing::HasSubstr("signal 6"));
}

}  // namespace
}  // namespace lodgekv::test
