// The stops of the Leaf Count-Based Flush (LodgeTree III-B), observed through counters and the
// medium.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

constexpr uint64_t kKeys = 8000;

// Puts keys in random order and passes the effect of each put to `see`.
template <class See>
void Fill(TestTree& tree, See see) {
  for (uint64_t n = 0; n < kKeys; ++n) {
    see(tree.PutEffect(Scattered(n), Text(n)));
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(tree.engine().CountKeys(), kKeys);
  tree.ExpectSound();
}

std::set<uint64_t> KeysInLeaves(TestTree& tree) {
  std::set<uint64_t> keys;
  for (const media::Leaf* leaf : tree.Leaves()) {
    const uint64_t slots = leaf->commit.Load() & media::kBitmapMask;
    for (unsigned slot = 0; slot < kLeafSlots; ++slot) {
      if ((slots >> slot & 1) != 0) keys.insert(leaf->slots[slot].key.Load());
    }
  }
  return keys;
}

TEST(LeafCountFlushTest, FirstStopAtTNodeLeaves) {
  for (const uint64_t t_node : {1, 2, 3, 8}) {
    SCOPED_TRACE(t_node);
    TestTree tree(KeyFormat::kFixed64, {{"t_node", std::to_string(t_node)}});
    uint64_t most = 0;
    Fill(tree, [&](const Effect& effect) {
      ASSERT_LE(effect["flushed_leaves_total"], t_node * effect["buffer_flushes_total"]);
      if (effect["buffer_flushes_total"] == 1) {
        most = std::max(most, effect["flushed_leaves_total"]);
      }
    });
    EXPECT_EQ(most, t_node);
  }
}

// Pairs are grouped from the oldest on: so a flush drains the leaf of the oldest one, and none is
// overtaken by all others.
TEST(LeafCountFlushTest, TheOldestPairIsDrained) {
  for (const uint64_t t_node : {1, 2}) {
    SCOPED_TRACE(t_node);
    TestTree tree(KeyFormat::kFixed64, {{"t_node", std::to_string(t_node)}});
    std::vector<uint64_t> buffered;  // the oldest first
    uint64_t flushes = 0;
    for (uint64_t n = 0; tree.Counters()["last_level_nodes"] == 1; ++n) {
      // With few leaves, a leaf that has become too full is drained first.
      const bool many_leaves = tree.Counters()["leaves"] > 8;
      const Effect effect = tree.PutEffect(Scattered(n), Text(n));
      if (effect["buffer_flushes_total"] != 0) {
        const std::set<uint64_t> in_leaves = KeysInLeaves(tree);
        ASSERT_TRUE(!many_leaves || in_leaves.contains(buffered.front())) << n;
        std::erase_if(buffered, [&](uint64_t key) { return in_leaves.contains(key); });
        flushes += many_leaves ? 1 : 0;
      }
      buffered.push_back(KeyWord(Scattered(n), 0));
    }
    EXPECT_GT(flushes, 20u);
  }
}

TEST(LeafCountFlushTest, SwitchedOffItDrainsTheWholeNode) {
  TestTree tree(KeyFormat::kFixed64, {{"leaf_count_flush", "0"}});
  uint64_t most = 0;
  Fill(tree, [&](const Effect& effect) {
    if (effect["buffer_flushes_total"] == 1) most = std::max(most, effect["flushed_leaves_total"]);
  });
  EXPECT_GT(most, 8u);
}

TEST(LeafCountFlushTest, AtMostOneLeafOfAFlushSplits) {
  TestTree tree(KeyFormat::kFixed64, {{"t_node", "4"}});
  bool beside_others = false;
  Fill(tree, [&](const Effect& effect) {
    ASSERT_LE(effect["leaf_splits_total"], effect["buffer_flushes_total"]);
    beside_others |= effect["buffer_flushes_total"] == 1 && effect["leaf_splits_total"] == 1 &&
                     effect["flushed_leaves_total"] > 1;
  });
  EXPECT_TRUE(beside_others);
}

TEST(LeafCountFlushTest, SecondStopASplittingLeafIsFlushedAlone) {
  TestTree tree(KeyFormat::kFixed64, {{"t_node", "4"}, {"split_alone", "1"}});
  uint64_t splits = 0;
  Fill(tree, [&](const Effect& effect) {
    if (effect["buffer_flushes_total"] != 1 || effect["leaf_splits_total"] == 0) return;
    ++splits;
    ASSERT_EQ(effect["flushed_leaves_total"], 1u);
  });
  EXPECT_GT(splits, kKeys / 100);
}

TEST(LeafCountFlushTest, TSplitBoundsALeaf) {
  for (const unsigned t_split : {10u, 25u, 27u}) {
    TestTree tree(KeyFormat::kFixed64, {{"t_split", std::to_string(t_split)}});
    Fill(tree, [](const Effect&) {});
    const std::vector<unsigned> fill = tree.LeafFill();
    EXPECT_EQ(*std::max_element(fill.begin(), fill.end()), t_split);
    EXPECT_GT(fill.size(), kKeys / t_split);
  }
}

// The put's own, unless the leaves' last commits are still open, or second ones are made.
TEST(LeafCountFlushTest, LeavesOfAFlushShareOneFence) {
  TestTree tree(KeyFormat::kFixed64, {{"t_node", "4"}});
  uint64_t flushes = 0;
  for (uint64_t n = 0; n < kKeys; ++n) {
    const size_t chunks = tree.pool().Chunks().size();
    const Effect effect = tree.PutEffect(Scattered(n), Text(n));
    // A new chunk needs fences of its own.
    if (effect["buffer_flushes_total"] != 1 || tree.pool().Chunks().size() != chunks) continue;
    ++flushes;
    const uint64_t second = effect["second_commits_total"] == 0 ? 0 : 3;
    ASSERT_EQ(effect.cost.fences, 1 + second + effect["nodes_closed_total"]);
  }
  EXPECT_GT(flushes, kKeys / 20);
}

// What was drained to the leaf is at or below its watermark, and nothing for it stays in the
// buffer: so the watermark may cover the whole leaf (invariant 2 of media::Leaf).
TEST(LeafCountFlushTest, AFlushDrainsItsLeavesWhole) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t n = 0; n < kKeys; ++n) (void)tree.Put(Scattered(n), Text(n));
  for (uint64_t n = 0; n < kKeys; n += 2) (void)tree.Put(Scattered(n), Text(n + 1));
  for (uint64_t n = 0; n < kKeys; n += 5) (void)tree.Delete(Scattered(n));
  const auto expect = [&] {
    for (uint64_t n = 0; n < kKeys; ++n) {
      const std::string value = n % 5 == 0 ? "none" : Text(n % 2 == 0 ? n + 1 : n);
      ASSERT_EQ(tree.Get(Scattered(n)), value) << n;
    }
  };
  expect();
  tree.KillAndRecover();
  tree.ExpectSound();
  expect();
}

// A full leaf whose group frees as many slots as it fills: they are free after the first commit.
TEST(LeafCountFlushTest, ASecondCommitFillsSlotsThatTheFirstFreed) {
  TestTree tree(KeyFormat::kFixed64, {{"t_split", "27"}});
  uint64_t key = 0;
  for (int round = 0; round < 2000 && tree.Counters()["second_commits_total"] == 0; ++round) {
    ++key;
    (void)tree.Put(Text(key), Text(key));
    if (key > 27) (void)tree.Delete(Text(key - 27));
  }
  EXPECT_GT(tree.Counters()["second_commits_total"], 0u);
  tree.ExpectSound();
  const uint64_t keys = tree.engine().CountKeys();
  tree.KillAndRecover();
  EXPECT_EQ(tree.engine().CountKeys(), keys);
  tree.ExpectSound();
}

}  // namespace
}  // namespace lodgekv::lodgetree
