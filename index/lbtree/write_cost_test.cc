// Lines and fences of single writes, against the paper's count (LB+-Tree 3.2 to 3.5).
#include <gtest/gtest.h>

#include "index/lbtree/lbtree_test_util.h"

namespace lodgekv::lbtree {
namespace {

constexpr uint64_t kStable = 40000;  // inserts until the tree is stable
constexpr uint64_t kMeasured = 20000;

struct Sum {
  uint64_t inserts = 0;
  uint64_t lines = 0;
  uint64_t fences = 0;
  double lines_each() const { return static_cast<double>(lines) / static_cast<double>(inserts); }
};
struct Inserts {
  Sum plain;
  Sum splits;  // those that split a leaf
};

// Random inserts into a stable tree; those that split are counted separately.
Inserts Measure(TestTree& tree) {
  Inserts all;
  for (uint64_t i = 0; i < kStable + kMeasured; ++i) {
    const Effect effect = i < kStable ? Effect{} : tree.PutEffect(Scattered(i), Text(i));
    if (i < kStable) {
      EXPECT_EQ(tree.Put(Scattered(i), Text(i)), Outcome::kOk);
      continue;
    }
    Sum& sum = effect["leaf_splits_total"] > 0 ? all.splits : all.plain;
    ++sum.inserts;
    sum.lines += effect.cost.lines_flushed;
    sum.fences += effect.cost.fences;
    if (&sum == &all.plain) {
      EXPECT_GE(effect.cost.lines_flushed, 1u);
      EXPECT_LE(effect.cost.lines_flushed, 2u);
      EXPECT_EQ(effect.cost.fences, effect.cost.lines_flushed);
    }
  }
  return all;
}

TEST(WriteCostTest, AnInsertBesideTheHeaderIsOneLineAnotherMovesThreeEntriesAway) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < 12; ++i) {
    const Effect effect = tree.PutEffect(Text(i), Text(i));
    // Three slots beside the header; each time they are full, their entries move to a line of four.
    const bool beside = i % 4 != 3;
    EXPECT_EQ(effect.cost.lines_flushed, beside ? 1u : 2u) << i;
    EXPECT_EQ(effect.cost.fences, beside ? 1u : 2u) << i;
    EXPECT_EQ(effect["moved_entries_total"], beside || i > 7 ? 0u + (beside ? 0 : 2) : 3u) << i;
  }
  EXPECT_EQ(tree.PairsOf(tree.Leaves()[0]), 12u);
}

// Not the first line with a free slot, but the one that can take the most entries.
TEST(WriteCostTest, EntriesMoveToTheLineWithMostFreeSlots) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < kBlockSlots; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  const media::Block& leaf = tree.Leaves()[0][0];
  ASSERT_EQ(TestTree::SlotsOf(&leaf, 0), media::kBitmapMask);
  constexpr uint32_t kFree = SlotsOfLine(1) & ~(SlotsOfLine(1) - 1);  // one slot
  constexpr uint32_t kMostFree = SlotsOfLine(2) & (SlotsOfLine(2) - 1);
  for (unsigned slot = 0; slot < kBlockSlots; ++slot) {
    if (((kFree | kMostFree) >> slot & 1) == 0) continue;
    ASSERT_EQ(tree.Delete(Text(leaf.slots[slot].key.Load())), Outcome::kOk);
  }
  const Effect effect = tree.PutEffect(Text(100), Text(100));
  EXPECT_EQ(effect.cost.lines_flushed, 2u);
  EXPECT_EQ(effect["moved_entries_total"], std::popcount(kMostFree) - 1u);
  EXPECT_EQ(TestTree::SlotsOf(&leaf, 0) & SlotsOfLine(2), SlotsOfLine(2));
  EXPECT_EQ(TestTree::SlotsOf(&leaf, 0) & kFree, 0u);
}

TEST(WriteCostTest, AnUpdateAndADeleteAreOneLineAndOneFence) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  const Effect update = tree.PutEffect(Text(4), Text(1000));
  EXPECT_EQ(update.cost.lines_flushed, 1u);
  EXPECT_EQ(update.cost.fences, 1u);
  const Effect remove = tree.EffectOf([&] { EXPECT_EQ(tree.Delete(Text(4)), Outcome::kOk); });
  EXPECT_EQ(remove.cost.lines_flushed, 1u);
  EXPECT_EQ(remove.cost.fences, 1u);
  const Effect absent = tree.EffectOf([&] { EXPECT_EQ(tree.Delete(Text(4)), Outcome::kOk); });
  EXPECT_EQ(absent.cost.lines_flushed, 0u);
}

TEST(WriteCostTest, TheLastPairOfALeafGoesWithTheLeafByOneLine) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < 200; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  const size_t leaves = tree.Leaves().size();
  uint64_t unlinked = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Delete(Text(i)), Outcome::kOk); });
    EXPECT_EQ(effect.cost.lines_flushed, 1u);
    EXPECT_EQ(effect.cost.fences, 1u);
    unlinked += effect["unlinked_leaves_total"];
  }
  EXPECT_GT(unlinked, leaves / 2);
  EXPECT_EQ(tree.Leaves().size(), leaves - unlinked);
  tree.ExpectSound();
}

struct Group {
  std::vector<std::string> keys;
  std::vector<WriteOp> ops;
  // The group owns the key; `ops` refers to it.
  void Put(std::string key) { Add(WriteKind::kPut, std::move(key)); }
  void Delete(std::string key) { Add(WriteKind::kDelete, std::move(key)); }
  void Add(WriteKind kind, std::string key) {
    ops.push_back({.kind = kind});
    keys.push_back(std::move(key));
    for (size_t i = 0; i < ops.size(); ++i) ops[i].key = ops[i].value = keys[i];
  }
};

TEST(WriteCostTest, AGroupSharesTwoFences) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < kStable; ++i) ASSERT_EQ(tree.Put(Scattered(i), Text(i)), Outcome::kOk);
  // Every other key exists: so leaves have room for the pairs that replace them.
  for (uint64_t i = 0; i < kStable; i += 2) ASSERT_EQ(tree.Delete(Scattered(i)), Outcome::kOk);
  Group group;
  for (uint64_t i = 0; i < 40; ++i) group.Put(Scattered(i));
  for (uint64_t i = 41; i < 60; i += 2) group.Delete(Scattered(i));
  const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Write(group.ops), Outcome::kOk); });
  // One before the commits, one for 16 of them; operations that were skipped need a second pass.
  EXPECT_LE(effect["groups_total"], 2u);
  EXPECT_LE(effect.cost.fences, 1u + 4u + 2u + 2 * effect["unlinked_leaves_total"]);
  EXPECT_LE(effect.cost.lines_flushed, 2 * group.ops.size());
  for (uint64_t i = 0; i < 40; ++i) EXPECT_EQ(tree.Get(Scattered(i)), Scattered(i));
  for (uint64_t i = 40; i < 60; ++i) EXPECT_EQ(tree.Get(Scattered(i)), "none");
  tree.ExpectSound();
}

TEST(WriteCostTest, AGroupInOneLeafHasOneCommit) {
  TestTree tree(KeyFormat::kFixed64);
  Group group;
  for (uint64_t i = 0; i < 7; ++i) group.Put(Text(i));
  const Effect puts = tree.EffectOf([&] { EXPECT_EQ(tree.Write(group.ops), Outcome::kOk); });
  EXPECT_EQ(puts.cost.lines_flushed, 2u);  // three beside the header, and a line of four
  EXPECT_EQ(puts.cost.fences, 2u);
  EXPECT_EQ(puts["groups_total"], 1u);
  // A put and a delete of one key, in order; the last one wins.
  Group again;
  again.Put(Text(1));
  again.Delete(Text(1));
  again.Delete(Text(2));
  again.Put(Text(2));
  again.Put(Text(2));
  again.Delete(Text(100));
  const Effect mixed = tree.EffectOf([&] { EXPECT_EQ(tree.Write(again.ops), Outcome::kOk); });
  EXPECT_LE(mixed.cost.fences, 2u);
  EXPECT_EQ(tree.Get(Text(1)), "none");
  EXPECT_EQ(tree.Get(Text(2)), Text(2));
  EXPECT_EQ(tree.PairsOf(tree.Leaves()[0]), 6u);
  tree.ExpectSound();
}

TEST(WriteCostTest, AGroupGoesOnBehindASplit) {
  for (const unsigned blocks : {1u, 3u}) {
    TestTree tree(KeyFormat::kBytes, {{"leaf_blocks", std::to_string(blocks)}});
    Group group;
    for (uint64_t i = 0; i < 200; ++i) group.Put("key" + Text(i));
    const Effect puts = tree.EffectOf([&] { EXPECT_EQ(tree.Write(group.ops), Outcome::kOk); });
    EXPECT_LE(puts.cost.fences, 2u * (1 + blocks));  // each block of the first leaf, and what it is
    EXPECT_EQ(tree.engine().CountKeys(), 200u);      // split into
    EXPECT_EQ(tree.Write(group.ops), Outcome::kOk);  // records of all of them are replaced
    EXPECT_EQ(tree.engine().CountKeys(), 200u);
    tree.ExpectSound();
  }
}

TEST(WriteCostTest, ValuesInFullLeavesChangeInTheirSlotsUnderSharedFences) {
  constexpr uint64_t kPairs = 14 * 30;
  const BulkLoad load{.source = [key = std::string(), next = uint64_t{0}](
                                    BulkPair* pair) mutable -> absl::StatusOr<bool> {
                        key = Text(next);
                        *pair = {key, key};
                        return next++ < kPairs;
                      },
                      .fill_percent = 100};
  TestTree tree(load, KeyFormat::kFixed64);
  Group group;
  for (uint64_t i = 0; i < 14; ++i) group.Add(WriteKind::kPut, Text(i * 30));
  const std::string value = Text(kPairs);
  for (WriteOp& op : group.ops) op.value = value;
  const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Write(group.ops), Outcome::kOk); });
  EXPECT_EQ(effect["updates_total"], group.ops.size());
  EXPECT_EQ(effect.cost.lines_flushed, group.ops.size());
  EXPECT_EQ(effect.cost.fences, 1u);
  EXPECT_EQ(tree.Get(Text(30)), value);
  // One in each of 30 leaves: readers wait for a fence, so it commits at most 16 of them.
  Group many;
  for (uint64_t i = 0; i < 30; ++i) many.Put(Text(i * 14 + 1));
  for (WriteOp& op : many.ops) op.value = value;
  const Effect by_sixteen = tree.EffectOf([&] { EXPECT_EQ(tree.Write(many.ops), Outcome::kOk); });
  EXPECT_EQ(by_sixteen["groups_total"], 1u);
  EXPECT_EQ(by_sixteen.cost.fences, 2u);
  // Two in one leaf: the second in a separate pass.
  Group pair;
  pair.Put(Text(30));
  pair.Put(Text(31));
  pair.ops[1].value = value;
  const Effect two = tree.EffectOf([&] { EXPECT_EQ(tree.Write(pair.ops), Outcome::kOk); });
  EXPECT_EQ(two.cost.fences, 2u);
  EXPECT_EQ(two["groups_total"], 2u);
  EXPECT_EQ(tree.Get(Text(30)), Text(30));
  tree.ExpectSound();
}

TEST(WriteCostTest, AGroupKeepsTheOrderOfAKeyOverItsPasses) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < 14; ++i) ASSERT_EQ(tree.Put(Text(2 * i), Text(i)), Outcome::kOk);
  // The leaf splits; operations for its left half wait, and so do later ones on the same key.
  Group group;
  group.Put(Text(1));
  group.Delete(Text(1));
  group.Put(Text(25));
  group.Put(Text(1));
  group.Delete(Text(25));
  group.ops[3].value = group.keys[2];
  const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Write(group.ops), Outcome::kOk); });
  EXPECT_EQ(effect["groups_total"], 2u);
  EXPECT_EQ(effect["leaf_splits_total"], 1u);
  EXPECT_LE(effect.cost.fences, 4u);
  EXPECT_EQ(tree.Get(Text(1)), Text(25));
  EXPECT_EQ(tree.Get(Text(25)), "none");
  tree.ExpectSound();
}

class StableTreeTest : public ::testing::TestWithParam<unsigned> {
 protected:
  TestTree::Options Options() const { return {{"leaf_blocks", std::to_string(GetParam())}}; }
};

TEST_P(StableTreeTest, AnInsertWritesAtMostAsManyLinesAsTheTheoremSays) {
  TestTree tree(KeyFormat::kFixed64, Options());
  const Inserts all = Measure(tree);
  ASSERT_GT(all.plain.inserts, kMeasured / 2);
  ASSERT_GT(all.splits.inserts, 100u);
  EXPECT_LE(all.plain.lines_each(), 1.31);  // Theorem 3.5
  // A split: the new leaf's lines, a sibling, m - 1 headers and the commit; then for half of them
  // an insert.
  const unsigned m = GetParam();
  EXPECT_LE(all.splits.lines_each(), 4.0 * m + 1 + (m - 1) + 1 + 1.5);
  EXPECT_LE(static_cast<double>(all.splits.fences) / static_cast<double>(all.splits.inserts), 4.0);
  RecordProperty("lines_per_insert", std::to_string(all.plain.lines_each()));
  RecordProperty("lines_per_split", std::to_string(all.splits.lines_each()));
  std::printf("m = %u: %.3f lines an insert without split, %.2f lines and %.2f fences with one\n",
              m, all.plain.lines_each(), all.splits.lines_each(),
              static_cast<double>(all.splits.fences) / static_cast<double>(all.splits.inserts));
}

TEST_P(StableTreeTest, WithoutEntryMovingAnInsertWritesMoreLines) {
  TestTree with(KeyFormat::kFixed64, Options());
  TestTree::Options options = Options();
  options["entry_moving"] = "0";
  TestTree without(KeyFormat::kFixed64, options);
  const double moved = Measure(with).plain.lines_each();
  const double not_moved = Measure(without).plain.lines_each();
  EXPECT_GT(not_moved, 1.2 * moved);
  std::printf("m = %u: %.3f lines an insert without entry moving, %.3f with\n", GetParam(),
              not_moved, moved);
}

TEST_P(StableTreeTest, ASplitWithALogWritesTheLeafOnceMore) {
  TestTree logless(KeyFormat::kFixed64, Options());
  TestTree::Options options = Options();
  options["logless_split"] = "0";
  TestTree logged(KeyFormat::kFixed64, options);
  const Sum without = Measure(logless).splits;
  const Sum with = Measure(logged).splits;
  EXPECT_EQ(with.inserts, without.inserts);
  EXPECT_EQ(with.lines - without.lines, with.inserts * 4 * GetParam());
  EXPECT_EQ(with.fences - without.fences, with.inserts);
}

INSTANTIATE_TEST_SUITE_P(Blocks, StableTreeTest, ::testing::Range(1u, kMaxBlocks + 1));

}  // namespace
}  // namespace lodgekv::lbtree
