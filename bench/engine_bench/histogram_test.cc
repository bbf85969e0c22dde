#include "bench/engine_bench/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/engine_bench/random.h"
#include "bench/engine_bench/statistics.h"

namespace lodgekv::bench {
namespace {

TEST(HistogramTest, IsEmptyAtFirst) {
  const Histogram histogram;
  EXPECT_EQ(histogram.total(), 0);
  EXPECT_EQ(histogram.Percentile(0.5), 0);
}

TEST(HistogramTest, IsExactForSmallValues) {
  Histogram histogram;
  for (uint64_t value = 1; value <= 200; ++value) histogram.Add(value);
  EXPECT_EQ(histogram.total(), 200);
  EXPECT_EQ(histogram.Percentile(0.5), 100);
  EXPECT_EQ(histogram.Percentile(0.99), 198);
  EXPECT_EQ(histogram.Percentile(1.0), 200);
  EXPECT_EQ(histogram.Percentile(0.0), 1);
}

TEST(HistogramTest, OneValueInTenThousandIsThe9999thPercentileButNotBelow) {
  Histogram histogram;
  for (int i = 0; i < 9'998; ++i) histogram.Add(10);
  histogram.Add(100'000);
  histogram.Add(100'000);
  EXPECT_EQ(histogram.Percentile(0.99), 10);
  EXPECT_EQ(histogram.Percentile(0.9998), 10);
  EXPECT_NEAR(histogram.Percentile(0.9999), 100'000, 400);
}

TEST(HistogramTest, IsWrongByLessThanFourPerMille) {
  Histogram histogram;
  std::vector<uint64_t> values;
  Random random(7);
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(random.Next() >> random.Below(64));
    histogram.Add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double fraction : {0.001, 0.1, 0.5, 0.9, 0.99, 0.9999, 1.0}) {
    const auto rank = static_cast<size_t>(std::ceil(fraction * 100'000)) - 1;
    const auto exact = static_cast<double>(values[rank]);
    EXPECT_NEAR(histogram.Percentile(fraction), exact, 0.004 * exact + 0.5) << fraction;
  }
}

TEST(HistogramTest, HoldsTheLargestValue) {
  Histogram histogram;
  histogram.Add(~uint64_t{0});
  EXPECT_NEAR(histogram.Percentile(0.5) / 0x1p64, 1.0, 0.004);
}

TEST(HistogramTest, MergesBothSides) {
  Histogram low;
  Histogram high;
  for (int i = 0; i < 100; ++i) low.Add(10);
  for (int i = 0; i < 100; ++i) high.Add(20);
  low.Merge(high);
  EXPECT_EQ(low.total(), 200);
  EXPECT_EQ(low.Percentile(0.5), 10);
  EXPECT_EQ(low.Percentile(0.51), 20);
}

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
