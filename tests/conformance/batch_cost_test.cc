// What writes cost where a fence is a sync: a write one, an atomic batch those of a batch and not
// of each operation.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

class BatchCostTest : public ConformanceTest {
 protected:
  static constexpr uint64_t kOps = 256;
  static constexpr uint64_t kLoaded = 100 * kOps;
  static constexpr uint64_t kMeasured = 20 * kOps;

  HarnessOptions Options() const override { return {.journal_bytes = uint64_t{8} << 20}; }

  // Of what `write` does, for each of `operations`.
  template <class Write>
  double SyncsOf(const char* what, uint64_t operations, const Write& write) {
    const uint64_t before = harness().pool()->journal_use()->syncs;
    write();
    const uint64_t syncs = harness().pool()->journal_use()->syncs - before;
    const double each = static_cast<double>(syncs) / static_cast<double>(operations);
    std::printf("%s, %s: %.3f syncs\n", GetParam().Name().c_str(), what, each);
    return each;
  }

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
  const double a_batch = SyncsOf("a batch of 256", kMeasured / kOps, [this] {
    for (uint64_t i = kLoaded; i < kLoaded + kMeasured; i += kOps) PutBatch(i);
  });
  EXPECT_LE(a_batch, 7);
}

// Pair and commit word are in one group of the journal. Splits, and flushes of write buffers, have
// syncs of their own.
TEST_P(BatchCostTest, AWriteOnAFileIsOneSync) {
  if (GetParam().small_nodes) GTEST_SKIP() << "nearly every put splits a leaf";
  constexpr uint64_t kKeys = 4'000;
  const auto put_all = [this](uint64_t id) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(Put(engine(), Key(i * 7'919 % 1'000'003), Value(id)).outcome, Outcome::kOk);
    }
  };
  EXPECT_LE(SyncsOf("an insert", kKeys, [&] { put_all(1); }), 1.25);
  EXPECT_LE(SyncsOf("an update", kKeys, [&] { put_all(2); }), 1.08);
  const double a_delete = SyncsOf("a delete", kKeys / 4, [this] {
    for (uint64_t i = 0; i < kKeys; i += 4) {
      ASSERT_EQ(Delete(engine(), Key(i * 7'919 % 1'000'003)).outcome, Outcome::kOk);
    }
  });
  EXPECT_LE(a_delete, 1.08);
}

INSTANTIATE_TEST_SUITE_P(Engines, BatchCostTest, ::testing::ValuesIn(PersistentCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
