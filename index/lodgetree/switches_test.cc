// Options that change the cost of a technique, and nothing else.
#include <gtest/gtest.h>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

// The effect of 8,000 puts and as many updates, in random key order.
Effect FillEffect(const TestTree::Options& options) {
  TestTree tree(KeyFormat::kFixed64, options);
  const Effect effect = tree.EffectOf([&] {
    for (uint64_t n = 0; n < 16000; ++n) {
      ASSERT_EQ(tree.Put(Scattered(n % 8000), Text(n)), Outcome::kOk);
    }
  });
  for (uint64_t n = 0; n < 8000; ++n) EXPECT_EQ(tree.Get(Scattered(n)), Text(n + 8000));
  tree.ExpectSound();
  return effect;
}

TEST(SwitchesTest, ASplitWithoutUseNIsWrittenAsideFirst) {
  const Effect on = FillEffect({});
  const Effect off = FillEffect({{"use_n_split", "0"}});
  const uint64_t splits = on["leaf_splits_total"];
  EXPECT_GT(splits, 300u);
  EXPECT_EQ(off["leaf_splits_total"], splits);
  EXPECT_EQ(off.cost.lines_flushed - on.cost.lines_flushed, splits * kLeafLines);
  EXPECT_EQ(off.cost.fences - on.cost.fences, splits);
}

TEST(SwitchesTest, WithoutLogReuseEveryLogComesFromTheArena) {
  const Effect on = FillEffect({});
  const Effect off = FillEffect({{"log_reuse", "0"}});
  EXPECT_GT(on["logs_reused_total"], on["logs_opened_total"] / 2);
  EXPECT_EQ(off["logs_reused_total"], 0u);
  EXPECT_EQ(off["logs_opened_total"], on["logs_opened_total"]);
}

}  // namespace
}  // namespace lodgekv::lodgetree
