// What an atomic batch costs where a fence is a sync: the cost of a batch, not of each operation.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "index/cost.h"
#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

class BatchCostTest : public ConformanceTest {
 protected:
  static constexpr uint64_t kOps = 256;
  static constexpr uint64_t kLoaded = 100 * kOps;
  static constexpr uint64_t kMeasured = 20 * kOps;

  // Like an ordinary file.
  HarnessOptions Options() const override { return {.strict_order = true}; }

  // New keys, scattered: the numbers below the modulus, which is prime, in another order.
  void PutBatch(uint64_t begin) {
    std::vector<std::string> keys;
    for (uint64_t i = begin; i < begin + kOps; ++i) keys.push_back(Key(i * 7'919 % 1'000'003));
    std::vector<WriteOp> ops;
    const std::string value = Value(begin);
    for (const std::string& key : keys) ops.push_back(PutOp(key, value));
    for (const WriteResult& result : Atomic(engine(), ops)) {
      ASSERT_EQ(result.outcome, Outcome::kOk);
    }
  }
};

// Counts of one thread, which are deterministic.
TEST_P(BatchCostTest, ABatchOnAFileSharesItsSyncs) {
  if (GetParam().small_nodes) GTEST_SKIP() << "nearly every put splits a leaf";
  for (uint64_t i = 0; i < kLoaded; i += kOps) PutBatch(i);
  const Cost before = ThreadCost();
  for (uint64_t i = kLoaded; i < kLoaded + kMeasured; i += kOps) PutBatch(i);
  const double fences = static_cast<double>((ThreadCost() - before).fences);
  const double a_batch = fences / (static_cast<double>(kMeasured) / kOps);
  std::printf("%s: %.2f fences a batch of %u\n", GetParam().Name().c_str(), a_batch,
              static_cast<unsigned>(kOps));
  EXPECT_LE(a_batch, 13);
}

INSTANTIATE_TEST_SUITE_P(Engines, BatchCostTest, ::testing::ValuesIn(PersistentCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
