// Leaves: head replacement, item movement, reclamation, splits, and how recovery finds them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "index/sstree/sstree_test_util.h"

namespace lodgekv::sstree {
namespace {

TestEngine::Options Subnodes(unsigned n) { return {{"subnodes", std::to_string(n)}}; }

void PutAll(TestTree& tree, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) ASSERT_EQ(tree.Put(Text(i), Text(~i)), Outcome::kOk);
}

// --- head replacement (SSTree III-B) ---

TEST(HeadReplacementTest, TheFifteenthPairGoesToANewHeadByOneLineAndOneFence) {
  TestTree tree(KeyFormat::kFixed64);
  // Descending, so that no pair begins a leaf of its own.
  for (uint64_t i = 100; i > 100 - kSubnodeSlots; --i) {
    ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  }
  const media::Subnode* old_head = tree.OnlyLeaf()[0];
  const Effect effect = tree.PutEffect(Text(1), Text(1));
  EXPECT_EQ(effect["head_replacements_total"], 1u);
  EXPECT_EQ(effect.cost.lines_flushed, 1u);
  EXPECT_EQ(effect.cost.fences, 1u);
  const ListOfSubnodes leaf = tree.OnlyLeaf();
  ASSERT_EQ(leaf.size(), 2u);
  EXPECT_EQ(leaf[1], old_head);
  EXPECT_EQ(TestTree::KeysOf(leaf, 0), std::vector<uint64_t>{1});
  EXPECT_EQ(TestTree::KeysOf(leaf, 1).size(), kSubnodeSlots);
  EXPECT_EQ(tree.Get(Text(100)), Text(100));
  tree.ExpectSound();
}

// The fingerprints of the old head's keys are in the new one's first line (delegated fingerprints).
TEST(HeadReplacementTest, TheNewHeadHoldsTheFingerprintsOfTheOldOne) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 20; i > 20 - kSubnodeSlots - 1; --i) {
    ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  }
  const ListOfSubnodes leaf = tree.OnlyLeaf();
  ASSERT_EQ(leaf.size(), 2u);
  uint8_t tags[16];
  LoadFingerprints(*leaf[0], tags);
  for (unsigned slot = 0; slot < kSubnodeSlots; ++slot) {
    EXPECT_EQ(tags[slot], FingerprintOf(Fixed64Codec::HashOf(SlotPair(*leaf[1], slot))));
  }
}

TEST(HeadReplacementTest, ALeafHasAtMostNSubnodes) {
  for (unsigned n = 2; n <= kMaxSubnodes; ++n) {
    TestTree tree(KeyFormat::kFixed64, Subnodes(n));
    for (uint64_t i = 0; i < 3000; ++i)
      ASSERT_EQ(tree.Put(Text(RandomWord(i)), "12345678"), Outcome::kOk);
    size_t most = 0;
    for (const auto& leaf : tree.Leaves()) most = std::max(most, leaf.size());
    EXPECT_EQ(most, n);
    tree.ExpectSound();
  }
}

TEST(HeadReplacementTest, WithoutItAFullLeafSplits) {
  TestTree tree(KeyFormat::kFixed64, {{"head_replacement", "0"}});
  for (uint64_t i = 0; i < 500; ++i)
    ASSERT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
  for (const auto& leaf : tree.Leaves()) EXPECT_EQ(leaf.size(), 1u);
  EXPECT_EQ(tree.Counters()["head_replacements_total"], 0u);
  tree.ExpectSound();
}

// --- item movement (SSTree III-C) ---

class TwoSubnodesTest : public ::testing::Test {
 protected:
  // Keys 1 to 14 are in the overflow subnode, 15 alone in the head; `first` is greater than all.
  void Fill(TestTree& tree) {
    for (uint64_t i = 14; i >= 1; --i) ASSERT_EQ(tree.Put(Text(2 * i), Text(i)), Outcome::kOk);
    ASSERT_EQ(tree.Put(Text(1), Text(0)), Outcome::kOk);
    ASSERT_EQ(tree.OnlyLeaf().size(), 2u);
  }
  // A key in slot `slot` of the overflow subnode.
  static uint64_t KeyAt(const ListOfSubnodes& leaf, unsigned slot) {
    return SlotPair(*leaf[1], slot).key;
  }
};

TEST_F(TwoSubnodesTest, AnUpdateMovesItsPairToTheHead) {
  TestTree tree(KeyFormat::kFixed64, {{"several_items", "0"}});
  Fill(tree);
  const uint64_t key = KeyAt(tree.OnlyLeaf(), 5);
  const Effect effect = tree.PutEffect(Text(key), Text(777));
  EXPECT_EQ(effect["moved_items_total"], 1u);
  EXPECT_EQ(effect.cost.lines_flushed, 1u);  // beside the head's word
  EXPECT_EQ(effect.cost.fences, 1u);
  const auto in_head = TestTree::KeysOf(tree.OnlyLeaf(), 0);
  EXPECT_NE(std::find(in_head.begin(), in_head.end(), key), in_head.end());
  EXPECT_EQ(TestTree::KeysOf(tree.OnlyLeaf(), 1).size(), kSubnodeSlots - 1);
  EXPECT_EQ(tree.Get(Text(key)), Text(777));
  tree.ExpectSound();
}

// All pairs of its line go with it when the head's line that is written has room for them.
TEST_F(TwoSubnodesTest, PairsOfTheSameLineMoveTogether) {
  TestTree tree(KeyFormat::kFixed64);
  Fill(tree);
  // The head's first line is full: the pair goes to a line of four free slots.
  ASSERT_EQ(tree.Put(Text(3), Text(0)), Outcome::kOk);
  const ListOfSubnodes leaf = tree.OnlyLeaf();
  const unsigned slot = static_cast<unsigned>(std::countr_zero(SlotsOfLine(2)));
  const Effect effect = tree.PutEffect(Text(KeyAt(leaf, slot)), Text(777));
  EXPECT_EQ(effect["moved_items_total"], 4u);
  EXPECT_EQ(effect.cost.lines_flushed, 2u);
  EXPECT_EQ(effect.cost.fences, 2u);
  EXPECT_EQ(SlotsOf(TestTree::ValidOf(tree.OnlyLeaf()), 1) & SlotsOfLine(2), 0u);
  tree.ExpectSound();
}

TEST_F(TwoSubnodesTest, WithoutItemMovementAValueChangesInItsSlot) {
  TestTree tree(KeyFormat::kFixed64, {{"item_movement", "0"}});
  Fill(tree);
  const uint64_t before = TestTree::ValidOf(tree.OnlyLeaf());
  for (uint64_t i = 1; i <= 14; ++i) ASSERT_EQ(tree.Put(Text(2 * i), Text(9)), Outcome::kOk);
  EXPECT_EQ(TestTree::ValidOf(tree.OnlyLeaf()), before);
  EXPECT_EQ(tree.Counters()["moved_items_total"], 0u);
}

TEST_F(TwoSubnodesTest, AValueOfTheHeadChangesInItsSlot) {
  TestTree tree(KeyFormat::kFixed64);
  Fill(tree);
  const uint64_t before = TestTree::ValidOf(tree.OnlyLeaf());
  const Effect effect = tree.PutEffect(Text(1), Text(9));
  EXPECT_EQ(effect.cost.lines_flushed, 1u);
  EXPECT_EQ(effect.cost.fences, 1u);
  EXPECT_EQ(TestTree::ValidOf(tree.OnlyLeaf()), before);
}

// --- reclamation (SSTree III-C, Fig. 5) ---

TEST_F(TwoSubnodesTest, TheDeleteThatEmptiesTheOverflowSubnodeFreesItToo) {
  TestTree tree(KeyFormat::kFixed64);
  Fill(tree);
  const uint64_t bytes = tree.engine().GetMemoryUse().medium_bytes;
  Effect last;
  for (uint64_t i = 1; i <= 14; ++i) {
    last = tree.EffectOf([&] { EXPECT_EQ(tree.Delete(Text(2 * i)), Outcome::kOk); });
    if (i == 14) break;
    EXPECT_EQ(last.cost.lines_flushed, 1u) << i;
    EXPECT_EQ(last.cost.fences, 1u) << i;
    EXPECT_EQ(last["reclaimed_subnodes_total"], 0u) << i;
  }
  EXPECT_EQ(last["reclaimed_subnodes_total"], 1u);
  EXPECT_LE(last.cost.lines_flushed, 3u);  // one overflow subnode: 3 flushes and 2 fences
  EXPECT_EQ(last.cost.fences, 2u);
  EXPECT_EQ(tree.OnlyLeaf().size(), 1u);
  EXPECT_EQ(tree.engine().GetMemoryUse().medium_bytes, bytes - sizeof(media::Subnode));
  EXPECT_EQ(tree.Get(Text(1)), Text(0));
  tree.ExpectSound();
}

TEST_F(TwoSubnodesTest, TheUpdateThatEmptiesTheOverflowSubnodeFreesItToo) {
  TestTree tree(KeyFormat::kFixed64);
  Fill(tree);
  for (uint64_t i = 1; i < 14; ++i) ASSERT_EQ(tree.Delete(Text(2 * i)), Outcome::kOk);
  const Effect effect = tree.PutEffect(Text(28), Text(9));
  EXPECT_EQ(effect["reclaimed_subnodes_total"], 1u);
  EXPECT_LE(effect.cost.lines_flushed, 3u);
  EXPECT_EQ(effect.cost.fences, 2u);
  EXPECT_EQ(tree.OnlyLeaf().size(), 1u);
  EXPECT_EQ(tree.Get(Text(28)), Text(9));
  tree.ExpectSound();
}

TEST_F(TwoSubnodesTest, WithoutReclamationTheSubnodeStays) {
  TestTree tree(KeyFormat::kFixed64, {{"reclamation", "0"}});
  Fill(tree);
  for (uint64_t i = 1; i <= 14; ++i) ASSERT_EQ(tree.Delete(Text(2 * i)), Outcome::kOk);
  EXPECT_EQ(tree.OnlyLeaf().size(), 2u);
  EXPECT_EQ(tree.Counters()["reclaimed_subnodes_total"], 0u);
  tree.ExpectSound();
}

TEST(ReclamationTest, WithThreeOverflowSubnodesAtMostFourLinesAndTwoFences) {
  TestTree tree(KeyFormat::kFixed64, Subnodes(4));
  for (uint64_t i = 100; i > 100 - 3 * kSubnodeSlots - 1; --i) {
    ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  }
  ASSERT_EQ(tree.OnlyLeaf().size(), 4u);
  uint64_t reclaimed = 0;
  for (uint64_t i = 100; i > 100 - 3 * kSubnodeSlots; --i) {
    const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Delete(Text(i)), Outcome::kOk); });
    EXPECT_LE(effect.cost.lines_flushed, 4u);
    EXPECT_LE(effect.cost.fences, 2u);
    reclaimed += effect["reclaimed_subnodes_total"];
  }
  EXPECT_EQ(reclaimed, 3u);
  EXPECT_EQ(tree.OnlyLeaf().size(), 1u);
  tree.ExpectSound();
}

// S10 of the review: the head is full, an overflow subnode has free slots.
TEST_F(TwoSubnodesTest, AnInsertFillsAFreeSlotOfTheOverflowSubnodeBeforeTheLeafSplits) {
  for (const bool fills : {true, false}) {
    TestTree tree(KeyFormat::kFixed64, {{"fill_holes", fills ? "1" : "0"}});
    Fill(tree);
    for (uint64_t i = 1; i < 14; ++i) {
      ASSERT_EQ(tree.Put(Text(2 * i + 1), Text(i)), Outcome::kOk);  // the head is full now
    }
    const uint64_t gone = KeyAt(tree.OnlyLeaf(), 3);
    ASSERT_EQ(tree.Delete(Text(gone)), Outcome::kOk);
    const Effect effect = tree.PutEffect(Text(0), Text(5));
    EXPECT_EQ(effect["filled_holes_total"], fills ? 1u : 0u);
    EXPECT_EQ(effect["leaf_splits_total"], fills ? 0u : 1u);
    EXPECT_EQ(tree.Get(Text(0)), Text(5));
    tree.ExpectSound();
    tree.KillAndRecover();
    EXPECT_EQ(tree.Get(Text(0)), Text(5));
    EXPECT_EQ(tree.engine().CountKeys(), 28u);
  }
}

// --- splits ---

TEST(SplitTest, ALeafOfNFullSubnodesSplitsInTheMiddle) {
  for (unsigned n = 2; n <= kMaxSubnodes; ++n) {
    TestTree tree(KeyFormat::kFixed64, Subnodes(n));
    const uint64_t full = n * kSubnodeSlots;
    for (uint64_t i = full; i > 0; --i) ASSERT_EQ(tree.Put(Text(2 * i), Text(i)), Outcome::kOk);
    ASSERT_EQ(tree.Leaves().size(), 1u);
    const Effect effect = tree.PutEffect(Text(2 * full - 3), Text(0));
    EXPECT_EQ(effect["leaf_splits_total"], 1u);
    const auto leaves = tree.Leaves();
    ASSERT_EQ(leaves.size(), 2u);
    EXPECT_EQ(std::min(leaves[0].size(), leaves[1].size()), 1u);  // the new one
    EXPECT_EQ(TestTree::PairsOf(leaves[0]) + TestTree::PairsOf(leaves[1]), full + 1);
    tree.ExpectSound();
    tree.KillAndRecover();
    EXPECT_EQ(tree.engine().CountKeys(), full + 1);
  }
}

// A load in ascending order leaves full leaves behind: each pair above all others begins one when
// the last leaf is full.
TEST(SplitTest, AscendingKeysLeaveFullLeaves) {
  TestTree tree(KeyFormat::kFixed64);
  PutAll(tree, 0, 2800);
  EXPECT_EQ(tree.Counters()["leaf_splits_total"], 0u);
  EXPECT_EQ(tree.Counters()["appended_leaves_total"], 99u);
  EXPECT_EQ(tree.Leaves().size(), 100u);
  EXPECT_EQ(tree.engine().GetMemoryUse().medium_bytes, 200 * sizeof(media::Subnode));
  tree.ExpectSound();
}

// --- recovery ---

class LeafTest : public ::testing::TestWithParam<unsigned> {
 protected:
  LeafTest() : tree_(KeyFormat::kFixed64, Subnodes(GetParam())) {}

  void Put(uint64_t key) {
    ASSERT_EQ(tree_.Put(Text(key), Text(~key)), Outcome::kOk);
    expected_[key] = ~key;
  }
  void Delete(uint64_t key) {
    ASSERT_EQ(tree_.Delete(Text(key)), Outcome::kOk);
    expected_.erase(key);
  }
  void ExpectKeys() {
    tree_.ExpectSound();
    EXPECT_EQ(tree_.engine().CountKeys(), expected_.size());
    auto at = expected_.begin();
    const auto visit = [&](const ScanItem& item) {
      EXPECT_NE(at, expected_.end());
      if (at == expected_.end()) return false;
      EXPECT_EQ(item.key, Text(at->first));
      EXPECT_EQ(item.value, Text(at->second));
      ++at;
      return true;
    };
    EXPECT_EQ(tree_.engine().Scan({}, visit), Outcome::kOk);
    EXPECT_EQ(at, expected_.end());
    for (const auto& [key, value] : expected_) ASSERT_EQ(tree_.Get(Text(key)), Text(value));
  }

  TestTree tree_;
  std::map<uint64_t, uint64_t> expected_;
};

TEST_P(LeafTest, LeavesGrowSplitAndGoAndAreFoundAgain) {
  std::mt19937_64 random(GetParam());
  for (int i = 0; i < 4000; ++i) {
    const uint64_t key = random() % 3000;
    const auto at = expected_.lower_bound(key);
    if (i / 1000 % 2 == 1 && random() % 10 < 8 && at != expected_.end()) {
      Delete(at->first);
    } else {
      Put(key);
    }
    if (i % 500 == 499) tree_.KillAndRecover(/*threads=*/static_cast<unsigned>(i / 500 % 3) + 1);
    if (i % 250 == 249) ExpectKeys();
  }
}

TEST_P(LeafTest, AnEmptiedRangeGivesItsSubnodesBackAndTheyAreUsedAgain) {
  const uint64_t keys = 3000;
  for (uint64_t i = 0; i < keys; ++i) Put(RandomWord(i) % 1'000'000);
  const uint64_t bytes = tree_.engine().GetMemoryUse().medium_bytes;
  std::vector<uint64_t> gone;
  for (const auto& [key, value] : expected_) {
    if (key >= 100'000 && key < 900'000) gone.push_back(key);
  }
  for (const uint64_t key : gone) Delete(key);
  EXPECT_LT(tree_.engine().GetMemoryUse().medium_bytes, bytes / 3);
  ExpectKeys();
  for (const uint64_t key : gone) Put(key);
  EXPECT_LE(tree_.engine().GetMemoryUse().medium_bytes, bytes * 11 / 10);
  ExpectKeys();
}

// Without reclamation only a leaf's last overflow subnode goes with its last pair.
TEST_P(LeafTest, RecoveryDropsEmptyLeavesWithAFenceForEachRound) {
  TestTree tree(KeyFormat::kFixed64, {{"subnodes", std::to_string(GetParam())},
                                      {"drop_leaves", "0"},
                                      {"reclamation", "0"}});
  for (uint64_t i = 0; i < 2000; ++i)
    ASSERT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
  for (uint64_t i = 0; i < 2000; ++i) ASSERT_EQ(tree.Delete(Text(RandomWord(i))), Outcome::kOk);
  const auto leaves = tree.Leaves();
  const auto longest = std::ranges::max(leaves, {}, &ListOfSubnodes::size).size();
  EXPECT_EQ(longest, GetParam() - 1);
  const Cost before = ThreadCost();
  tree.KillAndRecover();
  EXPECT_LE((ThreadCost() - before).fences, 10u);
  EXPECT_EQ(tree.recovery().repairs, leaves.size());
  EXPECT_EQ(tree.Leaves().size(), 0u);
  EXPECT_EQ(tree.engine().GetMemoryUse().medium_bytes, 0u);
  tree.ExpectSound();
  for (uint64_t i = 0; i < 2000; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  EXPECT_EQ(tree.engine().CountKeys(), 2000u);
}

// The number of subnodes and of slots are the tree's, not the pool's: leaves that have more of them
// are read, and grow no further.
TEST_P(LeafTest, APoolCanBeOpenedWithOtherLimits) {
  for (uint64_t i = 0; i < 1000; ++i) Put(RandomWord(i) % 100'000);
  for (unsigned round = 0; round < 3; ++round) {
    tree_.KillAndRecoverWith({{"subnodes", std::to_string(2 + (GetParam() + round) % 3)},
                              {"leaf_slots", round == 1 ? "5" : "14"}});
    ExpectKeys();
    for (uint64_t i = 0; i < 500; ++i) Put(RandomWord(1000 + 500 * round + i) % 100'000);
    std::vector<uint64_t> gone;
    for (const auto& [key, value] : expected_) {
      if (key % 3 == round) gone.push_back(key);
    }
    for (const uint64_t key : gone) Delete(key);
    ExpectKeys();
  }
}

INSTANTIATE_TEST_SUITE_P(N, LeafTest, ::testing::Range(2u, kMaxSubnodes + 1));

}  // namespace
}  // namespace lodgekv::sstree
