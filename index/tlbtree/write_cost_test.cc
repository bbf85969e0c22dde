// Lines and fences of writes, against the paper's counts (TLBtree III (3), Fig. 5): counts of one
// thread, which are deterministic.
#include <gtest/gtest.h>

#include <cstdio>

#include "index/node/engine_test_util.h"

namespace lodgekv::tlbtree {

const EngineInfo& GetEngineInfo();

namespace {

constexpr uint64_t kKeys = 60'000;

struct PerOp {
  double lines;
  double fences;
};
// Of `ops` calls of call(i).
template <class Call>
PerOp CostOf(uint64_t ops, Call call) {
  const Cost before = ThreadCost();
  for (uint64_t i = 0; i < ops; ++i) call(i);
  const Cost cost = ThreadCost() - before;
  return {static_cast<double>(cost.lines_flushed) / static_cast<double>(ops),
          static_cast<double>(cost.fences) / static_cast<double>(ops)};
}

void Load(TestEngine& tree, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) {
    ASSERT_EQ(tree.Put(Scattered(i), Text(i)), Outcome::kOk);
  }
}

PerOp InsertCost(const TestEngine::Options& options) {
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64, options);
  Load(tree, 0, kKeys);
  const PerOp cost = CostOf(kKeys / 2, [&](uint64_t i) {
    EXPECT_EQ(tree.Put(Scattered(kKeys + i), Text(i)), Outcome::kOk);
  });
  tree.ExpectSound();
  return cost;
}

TEST(WriteCostTest, AnInsertWritesAsFewLinesAsThePaperSays) {
  const PerOp cost = InsertCost({});
  std::printf("an insert with its share of splits: %.2f lines, %.2f fences\n", cost.lines,
              cost.fences);
  EXPECT_LE(cost.lines, 2.25);
  EXPECT_LE(cost.fences, 1.5);
}

TEST(WriteCostTest, WithoutEntryMovingAnInsertWritesMoreLines) {
  const PerOp cost = InsertCost({{"entry_moving", "0"}});
  std::printf("without entry moving: %.2f lines, %.2f fences\n", cost.lines, cost.fences);
  EXPECT_GE(cost.lines, 2.35);
  EXPECT_GE(cost.fences, 1.75);
}

TEST(WriteCostTest, EntriesThatSplitsDoNotMakeCostFences) {
  const PerOp cost = InsertCost({{"split_entries", "0"}});
  std::printf("with entries after splits: %.2f lines, %.2f fences\n", cost.lines, cost.fences);
  EXPECT_GE(cost.fences, InsertCost({}).fences + 0.03);
}

// Of so many keys of all.
PerOp DeleteCost(const TestEngine::Options& options, uint64_t keys) {
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64, options);
  Load(tree, 0, kKeys);
  return CostOf(
      keys, [&](uint64_t i) { EXPECT_EQ(tree.Delete(Scattered(i * 7 % kKeys)), Outcome::kOk); });
}

// What the paper counts (III (3)); it says nothing of merges.
TEST(WriteCostTest, ADeleteWritesOneLine) {
  const PerOp cost = DeleteCost({{"merges", "0"}}, kKeys / 2);
  EXPECT_EQ(cost.lines, 1.0);
  EXPECT_EQ(cost.fences, 1.0);
}

TEST(WriteCostTest, MergesCostLittle) {
  const PerOp tenth = DeleteCost({}, kKeys / 10);
  EXPECT_LE(tenth.lines, 1.01);
  const PerOp half = DeleteCost({}, kKeys / 2);
  std::printf("a delete, of a tenth and of half of the keys: %.2f, %.2f lines, %.2f, %.2f fences\n",
              tenth.lines, half.lines, tenth.fences, half.fences);
  EXPECT_LE(half.lines, 1.3);
  EXPECT_GE(half.lines, 1.05);  // there are merges
}

TEST(WriteCostTest, AnUpdateWritesOneLine) {
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64);
  Load(tree, 0, kKeys);
  const PerOp cost = CostOf(
      kKeys, [&](uint64_t i) { EXPECT_EQ(tree.Put(Scattered(i), Text(i + 1)), Outcome::kOk); });
  EXPECT_EQ(cost.lines, 1.0);
  EXPECT_EQ(cost.fences, 1.0);
}

TEST(WriteCostTest, EachTechniqueIsWorthItsLines) {
  for (const char* height : {"1", "2"}) {
    for (const char* gaps : {"0", "4", "8"}) {
      const PerOp cost = InsertCost({{"height", height}, {"gaps", gaps}});
      std::printf("height %s, gaps %s: %.2f lines, %.2f fences an insert\n", height, gaps,
                  cost.lines, cost.fences);
    }
  }
}

}  // namespace
}  // namespace lodgekv::tlbtree
