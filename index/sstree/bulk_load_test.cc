// Bulk load: content of the leaves, and cost. What it must do in every engine is tested by
// tests/conformance/bulk_load_test.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "index/node/bulk_load_test_util.h"
#include "index/sstree/sstree_test_util.h"

namespace lodgekv::sstree {
namespace {

struct Case {
  unsigned fill = 70;
  unsigned subnodes = 2;
};

class BulkTree : public TestTree {
 public:
  BulkTree(const Case& c, const TextPairs& pairs)
      : TestTree({SourceOf(pairs), c.fill}, KeyFormat::kFixed64,
                 {{"subnodes", std::to_string(c.subnodes)}}) {}
};

class BulkLoadTest : public ::testing::TestWithParam<Case> {};

TEST_P(BulkLoadTest, LeavesAreAsFullAsWanted) {
  const Case c = GetParam();
  const TextPairs pairs = FixedPairs(5000);
  BulkTree tree(c, pairs);
  const auto leaves = tree.Leaves();
  const double in_leaf = std::max(1.0, c.fill / 100.0 * kSubnodeSlots * c.subnodes);
  EXPECT_NEAR(static_cast<double>(leaves.size()), static_cast<double>(pairs.size()) / in_leaf, 1.0);
  unsigned odd = 0;
  for (const auto& leaf : leaves) {
    const unsigned count = TestTree::PairsOf(leaf);
    if (count < in_leaf - 1.0 || count > in_leaf + 1.0) ++odd;  // the last one
    // Overflow subnodes are full, and the head's free slots are beside its word first.
    const uint64_t valid = TestTree::ValidOf(leaf);
    for (unsigned number = 1; number < leaf.size(); ++number) {
      ASSERT_EQ(SlotsOf(valid, number), kSubnodeMask);
    }
    const uint32_t slots = SlotsOf(valid, 0);
    ASSERT_EQ(slots + (slots & -slots), 1u << kSubnodeSlots) << "with gaps: " << slots;
  }
  EXPECT_LE(odd, 1u);
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const unsigned subnodes : {2u, 3u, 4u}) {
    for (const unsigned fill : {kLeastFillPercent, 33u, 70u, 100u})
      cases.push_back({fill, subnodes});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, BulkLoadTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& tested) {
                           const Case& c = tested.param;
                           return absl::StrCat("fill_", c.fill, "_subnodes_", c.subnodes);
                         });

// --- what it costs ---

TEST(BulkLoadCostTest, ALeafIsWrittenOnce) {
  for (const unsigned subnodes : {2u, 3u, 4u}) {
    for (const unsigned fill : {75u, 100u}) {
      const TextPairs none;
      const TextPairs pairs = FixedPairs(20'000);
      const Case c{fill, subnodes};
      Cost cost = ThreadCost();
      BulkTree empty(c, none);
      const Cost of_empty = ThreadCost() - cost;
      cost = ThreadCost();
      BulkTree tree(c, pairs);
      const Cost of_load = ThreadCost() - cost;
      const double lines = static_cast<double>(of_load.lines_flushed - of_empty.lines_flushed);
      // A line for each subnode besides: its free tag, when its chunk comes into use.
      const auto subnodes_in_use =
          static_cast<double>(tree.engine().GetMemoryUse().medium_bytes / sizeof(media::Subnode));
      EXPECT_GE(lines / subnodes_in_use, kSubnodeLines);
      EXPECT_LE(lines / subnodes_in_use, kSubnodeLines + 1.4);
      EXPECT_LE(subnodes_in_use * kSubnodeSlots * fill / 100.0,
                1.35 * static_cast<double>(pairs.size()));
    }
  }
}

TEST(BulkLoadCostTest, LeavesAreWrittenPastTheCache) {
  constexpr uint64_t kSubnodes = 100;
  EXPECT_EQ(LinesPastTheCache(GetEngineInfo(), FixedPairs(kSubnodes * kSubnodeSlots)),
            kSubnodes * kSubnodeLines);
}

TEST(BulkLoadCostTest, FirstInsertsAfter70PercentWriteOneLine) {
  for (const unsigned subnodes : {2u, 3u, 4u}) {
    const TextPairs pairs = FixedPairs(5'000);
    BulkTree tree({70, subnodes}, pairs);
    // One more key above each fifth leaf's worth of keys: into a leaf that nothing was put into
    // yet.
    for (size_t i = 0; i < pairs.size(); i += 5 * 10 * subnodes) {
      std::string key = pairs[i].first;
      ++key.back();
      const Effect effect = tree.PutEffect(key, Text(i));
      ASSERT_LE(effect.cost.lines_flushed, 1u) << i;
      ASSERT_EQ(effect.cost.fences, 1u) << i;
      ASSERT_EQ(effect["leaf_splits_total"], 0u);
    }
  }
}

TEST(BulkLoadCostTest, FirstInsertsAfter100PercentSplit) {
  const TextPairs pairs = FixedPairs(5'000);
  BulkTree tree({100, 2}, pairs);
  for (size_t i = 0; i < 4'000; i += 100) {
    std::string key = pairs[i].first;
    ++key.back();
    const Effect effect = tree.PutEffect(key, Text(i));
    ASSERT_EQ(effect["leaf_splits_total"] + effect["appended_leaves_total"], 1u);
  }
}

}  // namespace
}  // namespace lodgekv::sstree
