// Bulk load: content of the leaves, and cost. What it must do in every engine is tested by
// tests/conformance/bulk_load_test.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "index/lbtree/lbtree_test_util.h"
#include "index/node/bulk_load_test_util.h"

namespace lodgekv::lbtree {
namespace {

struct Case {
  unsigned fill = 70;
  unsigned blocks = 1;
};

class BulkTree : public TestTree {
 public:
  BulkTree(const Case& c, const TextPairs& pairs)
      : TestTree({SourceOf(pairs), c.fill}, KeyFormat::kFixed64,
                 {{"leaf_blocks", std::to_string(c.blocks)}}) {}
};

class BulkLoadTest : public ::testing::TestWithParam<Case> {};

TEST_P(BulkLoadTest, LeavesAreAsFullAsWanted) {
  const Case c = GetParam();
  const TextPairs pairs = FixedPairs(5000);
  BulkTree tree(c, pairs);
  const auto leaves = tree.Leaves();
  const double in_leaf = std::max(1.0, c.fill / 100.0 * kBlockSlots * c.blocks);
  EXPECT_NEAR(static_cast<double>(leaves.size()), static_cast<double>(pairs.size()) / in_leaf, 1.0);
  for (size_t i = 0; i + 1 < leaves.size(); ++i) {
    ASSERT_NEAR(tree.PairsOf(leaves[i]), in_leaf, 1.0);
    ASSERT_FALSE(AltOf(leaves[i]));
    // Free slots are beside the headers first.
    for (unsigned b = 0; b < c.blocks; ++b) {
      const uint32_t slots = TestTree::SlotsOf(leaves[i], b);
      ASSERT_EQ(slots & (slots + (slots & -slots)), 0u) << "with gaps: " << slots;
      if (slots != 0) {
        ASSERT_NE(slots >> (kBlockSlots - 1), 0u);
      }
    }
  }
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const unsigned blocks : {1u, 2u, 3u, 4u}) {
    for (const unsigned fill : {kLeastFillPercent, 33u, 70u, 100u}) cases.push_back({fill, blocks});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Cases, BulkLoadTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& tested) {
                           const Case& c = tested.param;
                           return absl::StrCat("fill_", c.fill, "_blocks_", c.blocks);
                         });

// --- what it costs ---

TEST(BulkLoadCostTest, ALeafIsWrittenOnce) {
  for (const unsigned blocks : {1u, 2u, 4u}) {
    for (const unsigned fill : {70u, 100u}) {
      const TextPairs none;
      const TextPairs pairs = FixedPairs(20'000);
      const Case c{fill, blocks};
      Cost cost = ThreadCost();
      BulkTree empty(c, none);
      const Cost of_empty = ThreadCost() - cost;
      cost = ThreadCost();
      BulkTree tree(c, pairs);
      const Cost of_load = ThreadCost() - cost;
      const size_t leaves = tree.Leaves().size();
      const double lines = static_cast<double>(of_load.lines_flushed - of_empty.lines_flushed);
      // New chunks cost a few lines for 64 KiB of leaves. At 70 percent all lines are in use too.
      EXPECT_NEAR(lines / static_cast<double>(leaves), 4.0 * blocks, 0.1) << blocks << " " << fill;
      const double in_leaf = fill / 100.0 * kBlockSlots * blocks;
      EXPECT_LT(lines / static_cast<double>(pairs.size()), 1.03 * 4.0 * blocks / in_leaf);
    }
  }
}

TEST(BulkLoadCostTest, LeavesAreWrittenPastTheCache) {
  constexpr uint64_t kLeaves = 100;
  EXPECT_EQ(LinesPastTheCache(GetEngineInfo(), FixedPairs(kLeaves * kBlockSlots)),
            kLeaves * kBlockLines);
}

TEST(BulkLoadCostTest, FirstInsertsAfter70PercentWriteOneLine) {
  for (const unsigned blocks : {1u, 2u, 3u, 4u}) {
    const TextPairs pairs = FixedPairs(5'000);
    BulkTree tree({70, blocks}, pairs);
    // One more key above each fifth leaf's worth of keys: into a leaf that nothing was put into
    // yet.
    for (size_t i = 0; i < pairs.size(); i += 5 * 10 * blocks) {
      std::string key = pairs[i].first;
      ++key.back();
      const Effect effect = tree.PutEffect(key, Text(i));
      ASSERT_EQ(effect.cost.lines_flushed, 1u) << i;
      ASSERT_EQ(effect.cost.fences, 1u) << i;
      ASSERT_EQ(effect["leaf_splits_total"], 0u);
    }
  }
}

TEST(BulkLoadCostTest, FirstInsertsAfter100PercentSplit) {
  const TextPairs pairs = FixedPairs(5'000);
  BulkTree tree({100, 1}, pairs);
  for (size_t i = 0; i < 4'000; i += 100) {
    std::string key = pairs[i].first;
    ++key.back();
    ASSERT_EQ(tree.PutEffect(key, Text(i))["leaf_splits_total"], 1u);
  }
}

}  // namespace
}  // namespace lodgekv::lbtree
