#include "client/workload/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "client/workload/random.h"

namespace lodgekv::workload {
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

// A bucket's ends are farthest from its middle; 128 buckets begin in each doubling.
TEST(HistogramTest, EveryBucketIsWrongByAtMostA256th) {
  for (unsigned bits = 8; bits < 64; ++bits) {
    const uint64_t width = uint64_t{1} << (bits - 7);
    for (uint64_t bucket = 128; bucket < 256; ++bucket) {
      for (const uint64_t value : {bucket * width, bucket * width + width - 1}) {
        Histogram histogram;
        histogram.Add(value);
        const auto exact = static_cast<double>(value);
        ASSERT_LE(std::abs(histogram.Percentile(1) - exact), exact / 256) << value;
      }
    }
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

}  // namespace
}  // namespace lodgekv::workload
