// Sparse leaves merge, sparse nodes join, and exactly the keys that were not deleted remain.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

constexpr uint64_t kKeys = 20000;

class LeafMergeTest : public ::testing::Test {
 protected:
  LeafMergeTest() : tree_(KeyFormat::kFixed64) {
    for (uint64_t i = 0; i < kKeys; ++i) EXPECT_EQ(tree_.Put(KeyAt(i), Text(i)), Outcome::kOk);
    leaves_ = tree_.Leaves().size();
    nodes_ = tree_.Counters()["last_level_nodes"];
  }

  // Ascending.
  static std::string KeyAt(uint64_t i) { return Text(i << 20); }

  void ExpectKeys(const std::function<bool(uint64_t)>& kept) {
    tree_.ExpectSound();
    uint64_t count = 0;
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(tree_.Get(KeyAt(i)), kept(i) ? Text(i) : "none") << i;
      count += kept(i) ? 1 : 0;
    }
    EXPECT_EQ(tree_.engine().CountKeys(), count);
  }

  TestTree tree_;
  size_t leaves_;
  uint64_t nodes_;
};

// Remaining keys are far apart: without merging every leaf would keep a pair or two.
TEST_F(LeafMergeTest, ScatteredDeletesGiveLeavesAndNodesBack) {
  const auto kept = [](uint64_t i) { return i % 10 == 0; };
  for (uint64_t i = 0; i < kKeys; ++i) {
    if (kept(i)) continue;
    ASSERT_EQ(tree_.Delete(KeyAt(i)), Outcome::kOk);
  }
  EXPECT_LT(tree_.Leaves().size(), leaves_ / 4);
  EXPECT_LT(tree_.Counters()["last_level_nodes"], nodes_ / 2);
  EXPECT_GT(tree_.Counters()["merged_leaves_total"], leaves_ / 2);
  ExpectKeys(kept);
  tree_.KillAndRecover();
  ExpectKeys(kept);
}

TEST_F(LeafMergeTest, ADeletedRangeGivesItsLeavesBack) {
  const auto kept = [](uint64_t i) { return i < kKeys / 20 || i >= kKeys - kKeys / 20; };
  for (uint64_t i = 0; i < kKeys; ++i) {
    if (kept(i)) continue;
    ASSERT_EQ(tree_.Delete(KeyAt(i)), Outcome::kOk);
  }
  EXPECT_LT(tree_.Leaves().size(), leaves_ / 5);
  ExpectKeys(kept);
  tree_.KillAndRecover();
  ExpectKeys(kept);
}

// A merged leaf has room for further keys.
TEST_F(LeafMergeTest, NoLeafIsMergedToTheBrim) {
  for (uint64_t i = 0; i < kKeys; ++i) {
    if (i % 3 == 0) continue;
    ASSERT_EQ(tree_.Delete(KeyAt(i)), Outcome::kOk);
  }
  const std::vector<unsigned> fill = tree_.LeafFill();
  EXPECT_LE(*std::max_element(fill.begin(), fill.end()), 25u);
  EXPECT_GT(std::accumulate(fill.begin(), fill.end(), 0u) / fill.size(), 5u);
}

TEST_F(LeafMergeTest, WhatIsDeletedComesBackAndGoesAgain) {
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(tree_.Delete(KeyAt(i)), Outcome::kOk);
    EXPECT_LT(tree_.Leaves().size(), leaves_ / 10);
    tree_.ExpectSound();
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(tree_.Put(KeyAt(i), Text(i)), Outcome::kOk);
    ExpectKeys([](uint64_t) { return true; });
  }
}

TEST(LeafMergeCostTest, TwoFencesALeaf) {
  TestTree tree(KeyFormat::kFixed64, {{"leaf_slots", "4"}, {"t_split", "3"}});
  uint64_t most = 0;
  for (uint64_t i = 0; i < 2000; ++i) ASSERT_EQ(tree.Put(Scattered(i), Text(i)), Outcome::kOk);
  for (uint64_t i = 0; i < 2000; ++i) {
    const Effect effect =
        tree.EffectOf([&] { EXPECT_EQ(tree.Delete(Scattered(i)), Outcome::kOk); });
    const uint64_t merged = effect["merged_leaves_total"];
    most = std::max(most, merged);
    // Other fences: the log entry's, the flush's second, a log header's.
    EXPECT_LE(effect.cost.fences, 3 + 2 * merged);
  }
  EXPECT_GT(most, 0u);
}

// As soon as buffered deletes cover all of a leaf's pairs, not when the buffer is full.
TEST(LeafMergeCostTest, ALeafGoesWithItsLastPair) {
  TestTree tree(KeyFormat::kFixed64, {{"leaf_slots", "4"}, {"t_split", "3"}});
  for (uint64_t i = 1; i <= 40; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  const media::Leaf* leaf = tree.Leaves()[1];
  std::vector<std::string> keys;
  for (uint64_t left = leaf->commit.Load() & media::kBitmapMask; left != 0; left &= left - 1) {
    keys.push_back(Text(leaf->slots[std::countr_zero(left)].key.Load()));
  }
  ASSERT_GT(keys.size(), 1u);
  for (const std::string& key : keys) {
    const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Delete(key), Outcome::kOk); });
    EXPECT_EQ(effect["buffer_flushes_total"], key == keys.back() ? 1u : 0u);
  }
  EXPECT_GE(tree.Counters()["merged_leaves_total"], 1u);
  EXPECT_NE(tree.Leaves()[1], leaf);
  tree.ExpectSound();
}

// A lock, or a queue of one: draining would free no leaf, so a delete costs only its log entry.
TEST(LeafMergeCostTest, WhatNeverLeftTheBufferDrainsNothing) {
  TestTree tree(KeyFormat::kFixed64);
  const Effect effect = tree.EffectOf([&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(tree.Put(Text(1), Text(2)), Outcome::kOk);
      EXPECT_EQ(tree.Delete(Text(1)), Outcome::kOk);
    }
  });
  EXPECT_EQ(effect["buffer_flushes_total"], 0u);
  EXPECT_EQ(tree.Get(Text(1)), "none");
}

}  // namespace
}  // namespace lodgekv::lodgetree
