// Persistent engines that serve before their recovery has ended (Engine::GetRecoveryState). The
// engine's threads are held, so that the part in the background is as unfinished as it can be
// whenever a test says so. An engine that leaves nothing to them must say so.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "index/pmem/testing/hosted_tracer.h"
#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

using At = pmem::HostedTracer::At;

// What on_recovery_end has reported.
class RecoveryEnds {
 public:
  void Add(const RecoveryState& state) {
    const std::lock_guard lock(mutex_);
    states_.push_back(state);
    added_.notify_all();
  }
  void AwaitFirst() {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [this] { return !states_.empty(); });
  }
  std::vector<RecoveryState> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(states_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<RecoveryState> states_;
};

// A base, since both outlive the engine of ConformanceTest.
struct Witnesses {
  mutable pmem::HostedTracer tracer;
  mutable RecoveryEnds ends;
};

class RecoveringTest : public Witnesses, public ConformanceTest {
 protected:
  HarnessOptions Options() const override {
    HarnessOptions options;
    options.tracer = &tracer;
    options.on_recovery_end = [this](const RecoveryState& state) { ends.Add(state); };
    return options;
  }

  // Check counts what no thread is about to free.
  void TearDown() override {
    if (!IsSkipped()) {
      tracer.Hold(At::kNowhere);
      const absl::Status status = harness().CloseAndReopen();
      ASSERT_TRUE(status.ok()) << status;
    }
    ConformanceTest::TearDown();
  }

  static constexpr uint64_t kMostPut = 100;  // by WriteMore
  // In more leaves than one step of a sweep takes, under sanitizers too.
  static uint64_t keys() { return 2'000; }
  RecoveryState State() { return engine().GetRecoveryState(); }

  // Kills an engine that has keys [0, keys()), and lets no thread of its successor do anything.
  // Returns whether it has something left to do.
  bool KillAndHold() {
    tracer.Hold(At::kStart);
    const absl::Status status = harness().KillAndReopen();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_FALSE(harness().recovery().clean);
    const RecoveryState state = State();
    EXPECT_EQ(state.error, absl::OkStatus());
    EXPECT_FALSE(state.report.has_value());
    if (state.finished) {
      EXPECT_TRUE(ends.Take().empty());
    } else {
      EXPECT_FALSE(state.phase.empty());
      EXPECT_LE(state.done, state.total);
    }
    return !state.finished;
  }
  // What came to its end, and when it said so, in order.
  void ExpectEnded(bool left) {
    const std::vector<RecoveryState> ended = ends.Take();
    ASSERT_EQ(ended.size(), left ? 1u : 0u);
    for (const RecoveryState& state : ended) {
      EXPECT_TRUE(state.finished);
      EXPECT_EQ(state.error, absl::OkStatus());
      ASSERT_TRUE(state.report.has_value());
      // A sweep counts what it meets, and meets what was put meanwhile.
      EXPECT_GE(state.report->keys, keys());
      EXPECT_LE(state.report->keys, keys() + kMostPut);
    }
  }
  // Adds keys [keys(), keys() + more), moves a value away and back, deletes a key and puts it back.
  void WriteMore(uint64_t more) {
    PutRange(keys(), keys() + more);
    for (uint64_t number = 0; number < keys(); number += 7) {
      ASSERT_EQ(Put(engine(), Key(number), Value(number + 1)).outcome, Outcome::kOk);
      ASSERT_TRUE(Delete(engine(), Key(number)).found);
      ExpectMissing(Key(number));
      PutRange(number, number + 1);
    }
  }
};

TEST_P(RecoveringTest, ServesReadsAndWritesBeforeItsEnd) {
  PutRange(0, keys());
  const bool left = KillAndHold();
  ExpectRange(0, keys());
  WriteMore(kMostPut);
  ExpectRange(0, keys() + 100);
  EXPECT_EQ(State().finished, !left) << "only a held thread could have ended it";
  tracer.Hold(At::kNowhere);
  if (left) ends.AwaitFirst();
  const RecoveryState state = State();
  EXPECT_TRUE(state.finished);
  EXPECT_EQ(state.report.has_value(), left);
  ExpectEnded(left);
  ExpectRange(0, keys() + 100);
}

// Which operations settle what they touch is the engine's; its own tests say so.
TEST_P(RecoveringTest, ReadsTakeNothingBackOfWhatIsDone) {
  PutRange(0, keys());
  if (!KillAndHold()) return;
  RecoveryState before = State();
  for (uint64_t number = 0; number < keys(); ++number) {
    ExpectValue(Key(number), Value(number));
    const RecoveryState now = State();
    ASSERT_EQ(now.phase, before.phase);
    ASSERT_EQ(now.total, before.total);
    ASSERT_GE(now.done, before.done);
    ASSERT_LE(now.done, now.total);
    before = now;
  }
}

TEST_P(RecoveringTest, CloseBeforeItsEndIsClean) {
  PutRange(0, keys());
  const bool left = KillAndHold();
  WriteMore(kMostPut);
  const absl::Status status = harness().CloseAndReopen();
  ASSERT_TRUE(status.ok()) << status;
  ExpectEnded(left);
  EXPECT_TRUE(harness().recovery().clean);
  EXPECT_EQ(harness().recovery().keys, keys() + 100);
  EXPECT_TRUE(State().finished);
  ExpectRange(0, keys() + 100);
}

TEST_P(RecoveringTest, AKillBeforeItsEndLosesNothing) {
  PutRange(0, keys());
  for (uint64_t round = 0; round < 3; ++round) {
    KillAndHold();
    EXPECT_TRUE(ends.Take().empty());
    WriteMore(kMostPut);
    ExpectRange(0, keys() + 100);
  }
}

// What the threads have done by then counts for nothing, and they begin again.
TEST_P(RecoveringTest, AKillInTheMiddleLosesNothing) {
  PutRange(0, keys());
  for (uint64_t round = 0; round < 3; ++round) {
    const bool left = KillAndHold();
    PutRange(keys(), keys() + kMostPut);  // few leaves: it has something left to fence
    tracer.Hold(left ? At::kFence : At::kNowhere);
    if (left) tracer.AwaitHeld(At::kFence);
    ASSERT_TRUE(harness().KillAndReopen().ok());
    tracer.Hold(At::kNowhere);
    WriteMore(kMostPut);
    while (!State().finished) std::this_thread::yield();
    (void)ends.Take();
    WriteMore(kMostPut);
    ExpectRange(0, keys() + kMostPut);
  }
}

// An engine that is abandoned has no thread any more, also if one was in the middle of its work.
TEST_P(RecoveringTest, AnAbandonedEngineTouchesNothing) {
  PutRange(0, keys());
  const bool left = KillAndHold();
  tracer.Hold(left ? At::kFence : At::kNowhere);
  if (left) tracer.AwaitHeld(At::kFence);
  engine().Abandon();
  const uint64_t touches = tracer.touches();
  ASSERT_EQ(tracer.threads(), 0u);
  EXPECT_EQ(State().finished, !left);
  // Calls that still run find no thread to hand work to.
  WriteMore(kMostPut);
  ExpectRange(0, keys() + 100);
  engine().Abandon();
  EXPECT_EQ(tracer.threads(), 0u);
  EXPECT_EQ(tracer.touches(), touches);
  EXPECT_TRUE(ends.Take().empty());
  const absl::Status status = harness().KillAndReopen();
  ASSERT_TRUE(status.ok()) << status;
  ExpectRange(0, keys() + 100);
}

INSTANTIATE_TEST_SUITE_P(Engines, RecoveringTest, ::testing::ValuesIn(PersistentCases()),
                         EngineCaseName());
// A build may have volatile engines only.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecoveringTest);

}  // namespace
}  // namespace lodgekv::test
