// Groups that share fences: counts of one thread, which are deterministic.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "index/sptree/sptree_test_util.h"

namespace lodgekv::sptree {
namespace {

std::vector<WriteOp> PutsOf(const std::vector<std::string>& texts) {
  std::vector<WriteOp> ops;
  for (const std::string& text : texts) {
    ops.push_back({.kind = WriteKind::kPut, .key = text, .value = text});
  }
  return ops;
}

// Leaves of 64 pairs, with all even keys below their number.
void FillLeaves(TestTree& tree, uint64_t leaves) {
  for (uint64_t i = 0; i < leaves * kBnodeSlots; ++i) {
    ASSERT_EQ(tree.Put(Text(2 * i), Text(i)), Outcome::kOk);
  }
  ASSERT_EQ(tree.Leaves().size(), leaves);
}

TEST(GroupTest, FullLeavesSplitUnderTheGroupsFences) {
  constexpr uint64_t kLeaves = 10;
  TestTree tree(KeyFormat::kFixed64);
  FillLeaves(tree, kLeaves);
  // One key in the upper half of each.
  std::vector<std::string> texts;
  for (uint64_t leaf = 0; leaf < kLeaves; ++leaf) {
    texts.push_back(Text(2 * kBnodeSlots * leaf + 101));
  }
  const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Write(PutsOf(texts)), Outcome::kOk); });
  EXPECT_EQ(effect["leaf_splits_total"], kLeaves);
  EXPECT_EQ(effect.cost.fences, tree.pool().medium().strict_order() ? 3u : 2u);
  EXPECT_EQ(tree.Leaves().size(), 2 * kLeaves);
  for (const std::string& text : texts) EXPECT_EQ(tree.Get(text), text);
  tree.ExpectSound();
}

// The old leaf's slots count until the commit: a second pass.
TEST(GroupTest, AKeyOfTheOldLeafsSideFollowsInTheNextPass) {
  TestTree tree(KeyFormat::kFixed64);
  FillLeaves(tree, 2);
  const std::vector<std::string> texts = {Text(1), Text(3), Text(101)};
  const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Write(PutsOf(texts)), Outcome::kOk); });
  EXPECT_EQ(effect["leaf_splits_total"], 1u);
  EXPECT_EQ(effect["groups_total"], 2u);
  for (const std::string& text : texts) EXPECT_EQ(tree.Get(text), text);
  tree.ExpectSound();
}

// Where a fence is a sync, the pass has as many leaves as there are.
TEST(GroupTest, APassOnAFileHasSomeHundredLeaves) {
  constexpr uint64_t kLeaves = 250;
  TestTree tree(KeyFormat::kFixed64);
  FillLeaves(tree, kLeaves);
  tree.arena().options().strict_order = true;
  tree.CloseAndRecover();
  std::vector<std::string> texts;
  for (uint64_t leaf = 0; leaf < kLeaves; ++leaf) texts.push_back(Text(2 * kBnodeSlots * leaf));
  const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Write(PutsOf(texts)), Outcome::kOk); });
  EXPECT_EQ(effect["groups_total"], 1u);
  tree.ExpectSound();
}

// Each leaf is begun by one pair alone; the others join it in the next pass.
TEST(GroupTest, KeysThatAscendFillLeavesInAFewPasses) {
  TestTree tree(KeyFormat::kFixed64);
  FillLeaves(tree, 1);
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 4 * kBnodeSlots; ++i) texts.push_back(Text(1'000 + i));
  const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Write(PutsOf(texts)), Outcome::kOk); });
  std::printf("fences of a group of 256 ascending keys: %d\n",
              static_cast<int>(effect.cost.fences));
  EXPECT_LE(effect.cost.fences, 20u);
  EXPECT_EQ(tree.Leaves().size(), 5u);
  tree.ExpectSound();
}

TEST(GroupTest, AMovedPairIsRemovedInTheSamePass) {
  TestTree tree(KeyFormat::kFixed64);
  FillLeaves(tree, 1);
  const std::vector<std::string> texts = {Text(101)};
  const std::string removed = Text(110);
  std::vector<WriteOp> ops = PutsOf(texts);
  ops.push_back({.kind = WriteKind::kDelete, .key = removed});
  const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Write(ops), Outcome::kOk); });
  EXPECT_EQ(effect["groups_total"], 1u);
  EXPECT_EQ(tree.Get(removed), "none");
  tree.ExpectSound();
}

}  // namespace
}  // namespace lodgekv::sptree
