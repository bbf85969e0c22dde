// Engines that store nothing: they accept every write and stay empty.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

class DiscardingTest : public ConformanceTest {};

TEST_P(DiscardingTest, AcceptsWritesAndStaysEmpty) {
  for (uint64_t number = 0; number < 100; ++number) {
    const WriteResult put = Put(engine(), Key(number), Value(number));
    EXPECT_EQ(put.outcome, Outcome::kOk);
    EXPECT_EQ(put.version, 0u);
    EXPECT_FALSE(Delete(engine(), Key(number)).found);
    ExpectMissing(Key(number));
  }
  EXPECT_EQ(engine().CountKeys(), 0u);
  EXPECT_TRUE(ScanAll(engine()).empty());
  EXPECT_TRUE(ScanAll(engine(), {.reverse = true}).empty());
}

TEST_P(DiscardingTest, SetsEveryResult) {
  const std::string key = Key(1);
  const std::string value = Value(1);
  const std::vector<WriteOp> ops(100, PutOp(key, value));
  std::vector<WriteResult> written(ops.size(), {Outcome::kDataLoss, true, 99});
  EXPECT_EQ(engine().Write(ops, written, {.atomic = true}), Outcome::kOk);
  for (const WriteResult& result : written) {
    EXPECT_EQ(result.outcome, Outcome::kOk);
    EXPECT_FALSE(result.found);
    EXPECT_EQ(result.version, 0u);
  }
  const std::vector<std::string_view> keys(100, key);
  std::vector<ReadResult> read(keys.size(), {Outcome::kDataLoss, true, true, 99, 99, "stale"});
  EXPECT_EQ(engine().Read(keys, read, {}), Outcome::kOk);
  for (const ReadResult& result : read) {
    EXPECT_EQ(result.outcome, Outcome::kOk);
    EXPECT_FALSE(result.found);
    EXPECT_EQ(result.version, 0u);
    EXPECT_EQ(result.expiry_unix_ms, 0u);
  }
}

TEST_P(DiscardingTest, UsesNoMemory) {
  PutRange(0, 1'000);
  EXPECT_EQ(engine().GetMemoryUse().medium_bytes, 0u);
  EXPECT_EQ(engine().GetMemoryUse().dram_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Engines, DiscardingTest, ::testing::ValuesIn(DiscardingCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
