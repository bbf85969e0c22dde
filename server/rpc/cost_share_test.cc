#include "server/rpc/cost_share.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace lodgekv::server {
namespace {

std::vector<Cost> Share(const Cost& total, const std::vector<uint64_t>& weights) {
  CostShares shares(total, weights.size(),
                    std::accumulate(weights.begin(), weights.end(), uint64_t{0}));
  std::vector<Cost> result;
  for (const uint64_t weight : weights) result.push_back(shares.Next(weight));
  return result;
}

TEST(CostSharesTest, OneOperationGetsEverything) {
  const Cost share = Share({7, 2, 3, 501}, {64}).front();
  EXPECT_EQ(share.lines_flushed, 7);
  EXPECT_EQ(share.fences, 2);
  EXPECT_EQ(share.media_writes_256b, 3);
  EXPECT_EQ(share.bytes_stored, 501);
}

TEST(CostSharesTest, LinesAreSharedByWeightFencesEvenly) {
  const std::vector<Cost> shares = Share({100, 2, 10, 1'000}, {90, 10});
  EXPECT_EQ(shares[0].lines_flushed, 90);
  EXPECT_EQ(shares[1].lines_flushed, 10);
  EXPECT_EQ(shares[0].media_writes_256b, 9);
  EXPECT_EQ(shares[1].media_writes_256b, 1);
  EXPECT_EQ(shares[0].bytes_stored, 900);
  EXPECT_EQ(shares[0].fences, 1);
  EXPECT_EQ(shares[1].fences, 1);
}

TEST(CostSharesTest, AddUpToTheCostWhateverTheWeights) {
  const std::vector<std::vector<uint64_t>> groups{
      {1}, {1, 1, 1}, {64, 16'777'216, 65, 1'000}, std::vector<uint64_t>(256, 77)};
  for (const auto& weights : groups) {
    for (const Cost& total : {Cost{}, Cost{1, 1, 1, 1}, Cost{257, 3, 65, 16'779'999},
                              Cost{UINT64_MAX / 2, UINT64_MAX, 5, UINT64_MAX}}) {
      Cost sum;
      for (const Cost& share : Share(total, weights)) sum = sum + share;
      EXPECT_EQ(sum.lines_flushed, total.lines_flushed);
      EXPECT_EQ(sum.fences, total.fences);
      EXPECT_EQ(sum.media_writes_256b, total.media_writes_256b);
      EXPECT_EQ(sum.bytes_stored, total.bytes_stored);
    }
  }
}

}  // namespace
}  // namespace lodgekv::server
