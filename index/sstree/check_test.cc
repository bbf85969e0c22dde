// Check while others write.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>

#include "index/node/version_lock.h"
#include "index/sstree/sstree_test_util.h"

namespace lodgekv::sstree {
namespace {

constexpr uint64_t kLeafPairs = 2 * kSubnodeSlots;

// What a thread does in place of its first wait for a lock; a second wait is an error, which ends
// the call that waits.
class FirstWait {
 public:
  explicit FirstWait(std::function<void()> call) {
    call_ = std::move(call);
    waits_ = 0;
    Backoff::waiter.store(&Wait);
  }
  ~FirstWait() { Backoff::waiter.store(nullptr); }
  static unsigned waits() { return waits_; }

 private:
  static void Wait() {
    if (++waits_ > 1) throw std::runtime_error("waits for a lock that nobody else holds");
    call_();
  }
  static inline std::function<void()> call_;
  static inline unsigned waits_ = 0;
};

// Check holds each leaf that it has looked at. One to the right of them can still go, and then the
// last of them covers where Check continues.
TEST(CheckTest, ContinuesBehindAHeldLeafThatHasTakenOverARange) {
  TestTree tree(KeyFormat::kFixed64);
  // Two full leaves, and a pair between them that has a leaf of its own.
  for (uint64_t i = 1; i <= kLeafPairs; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  const uint64_t alone = 100;
  ASSERT_EQ(tree.Put(Text(alone), Text(1)), Outcome::kOk);
  ASSERT_EQ(tree.Leaves().size(), 2u);
  std::promise<void> dropping;
  std::promise<void> looked_at;
  CallingTracer tracer("sstree.drop.1", [&] {
    dropping.set_value();
    looked_at.get_future().wait();
  });
  tree.arena().options().tracer = &tracer;
  tree.KillAndRecover();
  std::thread deleter([&] { EXPECT_EQ(tree.Delete(Text(alone)), Outcome::kOk); });
  dropping.get_future().wait();
  CheckReport report;
  {
    const FirstWait first_wait([&] {
      looked_at.set_value();
      deleter.join();
    });
    EXPECT_NO_THROW(report = tree.engine().Check());
    EXPECT_EQ(FirstWait::waits(), 1u);
  }
  EXPECT_EQ(report.problem_count, 0u);
  EXPECT_EQ(report.leaves, 1u);
  EXPECT_EQ(report.keys, kLeafPairs);
  tree.arena().options().tracer = nullptr;
  tree.KillAndRecover();  // before the tracer goes
}

// In passing: the leaf that was looked at last goes between two steps, and its range goes to the
// right. That leaf has not been looked at.
TEST(CheckInPassingTest, LooksAtTheLeafThatHasTakenOverTheRangeOfItsLeftNeighbour) {
  TestTree tree(KeyFormat::kFixed64);
  constexpr uint64_t kLeaves = 126;  // six inner nodes with 21 each, after a recovery
  constexpr uint64_t kLookedAt = 64;
  for (uint64_t i = 0; i < kLeaves * kLeafPairs; ++i) {
    ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  }
  tree.KillAndRecover();
  ASSERT_EQ(tree.Leaves().size(), kLeaves);
  bool first = true;
  const CheckReport report = tree.engine().CheckInPassing([&] {
    if (!std::exchange(first, false)) return true;
    for (uint64_t i = 0; i < kLeafPairs; ++i) {
      EXPECT_EQ(tree.Delete(Text((kLookedAt - 1) * kLeafPairs + i)), Outcome::kOk);
    }
    return true;
  });
  ASSERT_EQ(tree.Leaves().size(), kLeaves - 1);
  EXPECT_EQ(report.problem_count, 0u);
  EXPECT_EQ(report.leaves, kLeaves);
  EXPECT_EQ(report.keys, kLeaves * kLeafPairs);
}

}  // namespace
}  // namespace lodgekv::sstree
