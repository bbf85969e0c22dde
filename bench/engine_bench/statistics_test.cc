#include "bench/engine_bench/statistics.h"

#include <gtest/gtest.h>

namespace lodgekv::bench {
namespace {

TEST(SpreadOfTest, GivesMedianAndQuartiles) {
  const Spread spread = SpreadOf({5, 1, 4, 2, 3});
  EXPECT_EQ(spread.low, 2);
  EXPECT_EQ(spread.median, 3);
  EXPECT_EQ(spread.high, 4);
  EXPECT_EQ(SpreadOf({1, 2}).median, 1.5);
  EXPECT_EQ(SpreadOf({7}).high, 7);
  EXPECT_EQ(SpreadOf({}).median, 0);
}

}  // namespace
}  // namespace lodgekv::bench
