// Lines and fences of writes, and DRAM, against the paper's counts: counts of one thread, which are
// deterministic.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "index/sptree/sptree_test_util.h"

namespace lodgekv::sptree {
namespace {

constexpr uint64_t kKeys = 60'000;

struct PerOp {
  double lines;
  double fences;
};
// Of `ops` operations in `call`.
template <class Call>
PerOp CostOf(uint64_t ops, Call call) {
  const Cost before = ThreadCost();
  call();
  const Cost cost = ThreadCost() - before;
  return {static_cast<double>(cost.lines_flushed) / static_cast<double>(ops),
          static_cast<double>(cost.fences) / static_cast<double>(ops)};
}

void Insert(TestTree& tree, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; ++i) {
    ASSERT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
  }
}

void Print(const char* what, PerOp cost) {
  std::printf("%s: %.3f lines, %.3f fences\n", what, cost.lines, cost.fences);
}

TEST(WriteCostTest, AnInsertIsTwoPhasesOfOneLineEachAndATag) {
  TestTree tree(KeyFormat::kFixed64);
  const Effect effect = tree.PutEffect(Text(7), Text(8));
  EXPECT_EQ(effect.cost.lines_flushed, 3u);
  EXPECT_EQ(effect.cost.fences, 2u);
  EXPECT_EQ(effect["inserts_total"], 1u);
}

TEST(WriteCostTest, AnUpdateAndADeleteAreOneLineEach) {
  TestTree tree(KeyFormat::kFixed64);
  Insert(tree, 0, 1000);
  const Effect update = tree.PutEffect(Text(RandomWord(5)), Text(1));
  EXPECT_EQ(update.cost.lines_flushed, 1u);
  EXPECT_EQ(update.cost.fences, 1u);
  const Effect removal =
      tree.EffectOf([&] { EXPECT_EQ(tree.Delete(Text(RandomWord(5))), Outcome::kOk); });
  EXPECT_EQ(removal.cost.lines_flushed, 1u);
  EXPECT_EQ(removal.cost.fences, 1u);
}

// With splits. A tree in which keys keep arriving at random.
TEST(WriteCostTest, ARandomInsertWritesThreeAndAHalfLines) {
  TestTree tree(KeyFormat::kFixed64);
  Insert(tree, 0, kKeys);
  const PerOp cost = CostOf(kKeys, [&] { Insert(tree, kKeys, 2 * kKeys); });
  Print("random insert", cost);
  EXPECT_LE(cost.lines, 3.6);
  EXPECT_LE(cost.fences, 2.2);
}

// SPTree 4.1: two rounds of flushes and fences for any number of pairs.
TEST(WriteCostTest, AGroupOfInsertsInOneLeafSharesTwoFences) {
  TestTree tree(KeyFormat::kFixed64);
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < kBnodeSlots; ++i) texts.push_back(Text(i));
  std::vector<WriteOp> ops;
  for (const std::string& text : texts) {
    ops.push_back({.kind = WriteKind::kPut, .key = text, .value = text});
  }
  const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Write(ops), Outcome::kOk); });
  EXPECT_EQ(effect.cost.fences, 2u);
  EXPECT_EQ(effect.cost.lines_flushed, 18u);  // 16 of slots, tags, words
}

// SPTree 5.1: about 12 % of the leaves, without write buffers.
TEST(WriteCostTest, DramIsASixthOfTheLeaves) {
  TestTree tree(KeyFormat::kFixed64);
  Insert(tree, 0, 2 * kKeys);
  std::printf("DRAM: %.3f of the leaves\n", tree.DramShare());
  EXPECT_LE(tree.DramShare(), 0.18);
}

}  // namespace
}  // namespace lodgekv::sptree
