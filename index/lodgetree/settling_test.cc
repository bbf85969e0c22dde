// What recovery leaves to a leaf's next drain and to the background (node/rest_of_recovery.h).
#include <gtest/gtest.h>

#include <string>

#include "index/lodgetree/lodgetree_test_util.h"
#include "index/node/killed_tree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

constexpr unsigned kKeys = 40'000;

class SettlingTest : public KilledTreeTest<TestTree> {
 protected:
  void Fill(std::string (*key)(uint64_t)) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(tree_.Put(key(i), Text(i)), Outcome::kOk);
    }
    leaves_ = tree_.Leaves().size();
    ASSERT_GT(leaves_, 1000u);
  }

  uint64_t leaves_ = 0;
};

TEST_F(SettlingTest, RecoveryFlushesNoLeafAndReadsNeedNone) {
  // In order: then few logs are found.
  Fill(Text);
  const Cost before = ThreadCost();
  KillAndRecoverInPlace();
  EXPECT_LT((ThreadCost() - before).lines_flushed, leaves_);
  uint64_t seen = 0;
  EXPECT_EQ(LinesOf([&] {
              EXPECT_EQ(tree_.Get(Text(1)), Text(1));
              EXPECT_EQ(tree_.Get(Text(kKeys)), "none");
              (void)tree_.engine().Scan({}, [&](const ScanItem&) { return ++seen > 0; });
            }),
            0u);
  EXPECT_EQ(seen, kKeys);
}

// All lines of the leaf, and of those that may lead to it, before the drain's own.
// And with it those from which an unflushed commit may lead to it. (A step of the rest, which comes
// with a write here, is one leaf.)
TEST_F(SettlingTest, ALeafIsSettledBeforeItIsDrained) {
  Fill(Text);
  KillAndRecoverInPlace();
  ASSERT_EQ(State().total, leaves_);
  for (uint64_t i = 0;; ++i) {
    ASSERT_LT(i, 1000u);
    const uint64_t done = State().done;
    const Effect effect =
        tree_.EffectOf([&] { ASSERT_EQ(tree_.Put(Text(kKeys / 2 + i), Text(i)), Outcome::kOk); });
    const uint64_t settled = State().done - done;
    if (effect["flushed_leaves_total"] == 0) {
      ASSERT_LE(settled, 1u);
      continue;
    }
    EXPECT_GT(settled, kNodeSlots);
    EXPECT_LT(settled, 4 * kNodeSlots);
    EXPECT_GE(effect.cost.lines_flushed, settled * kLeafLines);
    break;
  }
}

TEST_F(SettlingTest, WritesGoOnMeanwhileAndBringItToItsEnd) {
  Fill(Scattered);
  KillAndRecoverInPlace();
  EXPECT_EQ(State().phase, "settling");
  uint64_t writes = 0;
  for (; writes < 1'000'000 && !State().finished; ++writes) {
    ASSERT_EQ(tree_.Put(Scattered(kKeys + writes), Text(writes)), Outcome::kOk);
    if (writes % 3 != 0) continue;
    ASSERT_EQ(tree_.Delete(Scattered(writes)), Outcome::kOk);
  }
  EXPECT_TRUE(State().finished);
  ASSERT_TRUE(State().report.has_value());
  EXPECT_EQ(State().report->keys, kKeys);
  tree_.ExpectSound();
  for (uint64_t i = 0; i < writes; ++i) ASSERT_EQ(tree_.Get(Scattered(kKeys + i)), Text(i));
}

// What a power cut takes from a leaf is replayed from the logs that recovery has found.
TEST_F(SettlingTest, NoLogIsOverwrittenMeanwhile) {
  Fill(Scattered);
  KillAndRecoverInPlace();
  ASSERT_GT(tree_.recovery().log_entries_replayed, 1000u);
  uint64_t writes = 0;
  for (; !State().finished; ++writes) {
    ASSERT_EQ(tree_.Put(Scattered(kKeys + writes), Text(writes)), Outcome::kOk);
    if (tree_.pool().finding_space()) {
      ASSERT_EQ(tree_.Counters().at("logs_reused_total"), 0u);
    }
  }
  EXPECT_GT(writes, 1000u);
}

TEST_F(SettlingTest, TheBackgroundDoesItWithoutAWrite) {
  Fill(Scattered);
  ExpectThatTheBackgroundEndsIt();
}

TEST_F(SettlingTest, CloseBringsItToItsEnd) {
  Fill(Scattered);
  ExpectThatCloseEndsIt();
}

TEST_F(SettlingTest, NothingIsLeftOfASmallTree) { ExpectNoRestOfASmallTree(); }

}  // namespace
}  // namespace lodgekv::lodgetree
