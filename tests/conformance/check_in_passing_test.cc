// A check while others write: it finds what an exclusive check finds, reports no concurrent change
// as damage, and holds nothing between its steps.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/conformance/conformance_fixture.h"
#include "tests/support/threads.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kKeys = 10'000;
constexpr uint32_t kWriters = 2;
constexpr int kChecks = 20;

class CheckInPassingTest : public ConformanceTest {
 protected:
  static bool GoOn() { return true; }

  // Windows of keys that are put and deleted, so that leaves split and merge constantly.
  void PassOver(uint64_t first, const std::atomic<bool>& stop) {
    constexpr uint64_t kWindow = 1'000;
    for (uint64_t at = first; !stop; at = at + kWindow < kKeys ? at + kWindow : first) {
      for (uint64_t n = at; n < at + kWindow && !stop; n += kWriters) {
        (void)Delete(engine(), Key(n));
      }
      for (uint64_t n = at; n < at + kWindow && !stop; n += kWriters) {
        (void)Put(engine(), Key(n), Value(n, n % 7 * 20));
      }
    }
  }
};

TEST_P(CheckInPassingTest, SaysOfAStillStructureWhatCheckSays) {
  PutRange(0, kKeys);
  const CheckReport all_at_once = engine().Check();
  const CheckReport report = engine().CheckInPassing(&GoOn);
  EXPECT_EQ(report.problem_count, 0u);
  EXPECT_EQ(report.keys, kKeys);
  EXPECT_EQ(report.leaves, all_at_once.leaves);
  EXPECT_EQ(report.bytes_reachable, all_at_once.bytes_reachable);
}

TEST_P(CheckInPassingTest, TakesNothingThatWritersDoForDamage) {
  PutRange(0, kKeys);
  std::atomic<bool> stop{false};
  RunTogether(kWriters + 1, [&](uint32_t thread) {
    if (thread < kWriters) return PassOver(thread, stop);
    for (int i = 0; i < kChecks; ++i) {
      const CheckReport report = engine().CheckInPassing([] {
        std::this_thread::yield();
        return true;
      });
      EXPECT_EQ(report.problem_count, 0u);
      for (const std::string& problem : report.problems) ADD_FAILURE() << problem;
    }
    stop = true;
  });
  ExpectSound();
}

// The callback between two steps may write anywhere: nothing is locked.
TEST_P(CheckInPassingTest, HoldsNothingBetweenItsSteps) {
  PutRange(0, kKeys);
  uint64_t pauses = 0;
  const CheckReport report = engine().CheckInPassing([&] {
    ++pauses;
    for (uint64_t n = 0; n < kKeys; n += 997) {
      EXPECT_EQ(Put(engine(), Key(n), Value(n)).outcome, Outcome::kOk);
    }
    return true;
  });
  EXPECT_EQ(report.problem_count, 0u);
  EXPECT_TRUE(pauses > 1 || !harness().persistent()) << pauses;
}

TEST_P(CheckInPassingTest, EndsWhenItIsTold) {
  if (!harness().persistent()) GTEST_SKIP() << "checks at once";
  PutRange(0, kKeys);
  uint64_t pauses = 0;
  const CheckReport report = engine().CheckInPassing([&] { return ++pauses < 2; });
  EXPECT_EQ(pauses, 2u);
  EXPECT_GT(report.keys, 0u);
  EXPECT_LT(report.keys, kKeys);
}

INSTANTIATE_TEST_SUITE_P(Engines, CheckInPassingTest, ::testing::ValuesIn(StoringCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
