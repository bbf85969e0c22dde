#include "bench/engine_bench/tally_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "bench/engine_bench/btree_target.h"

namespace lodgekv::bench {
namespace {

using testing::HasSubstr;

class TallyCheckTest : public testing::Test {
 protected:
  absl::Status Check(Workload workload, uint64_t operations, const Tally& tally) {
    OpBatch batch;
    batch.workload = workload;
    batch.numbers.resize(operations);
    return CheckTally(target_, batch, tally);
  }
  std::string Error(Workload workload, uint64_t operations, const Tally& tally) {
    return std::string(Check(workload, operations, tally).message());
  }

  BtreeTarget target_{1};
};

TEST_F(TallyCheckTest, AcceptsWhatIsRight) {
  EXPECT_TRUE(Check(Workload::kInsert, 10, {}).ok());
  EXPECT_TRUE(Check(Workload::kRead, 10, {.found = 10}).ok());
  EXPECT_TRUE(Check(Workload::kReadAbsent, 10, {}).ok());
  EXPECT_TRUE(Check(Workload::kDelete, 10, {.found = 10}).ok());
  EXPECT_TRUE(Check(Workload::kScan, 10, {.found = 10, .items = 990}).ok());
  EXPECT_TRUE(Check(Workload::kMixed, 11, {.found = 5}).ok());
  EXPECT_TRUE(Check(Workload::kMixed12, 10, {.found = 6}).ok());
}

TEST_F(TallyCheckTest, SeesLostKeys) {
  EXPECT_THAT(Error(Workload::kRead, 10, {.found = 9}), HasSubstr("9 of 10 keys were found"));
  EXPECT_FALSE(Check(Workload::kDelete, 10, {.found = 9}).ok());
  EXPECT_FALSE(Check(Workload::kScan, 10, {.found = 9, .items = 900}).ok());
  EXPECT_FALSE(Check(Workload::kMixed, 10, {.found = 4}).ok());
}

TEST_F(TallyCheckTest, SeesKeysThatShouldNotBeThere) {
  EXPECT_FALSE(Check(Workload::kReadAbsent, 10, {.found = 1}).ok());
  EXPECT_FALSE(Check(Workload::kScan, 10, {.found = 10, .items = 1001}).ok());
}

TEST_F(TallyCheckTest, SeesWrongValues) {
  EXPECT_THAT(Error(Workload::kRead, 10, {.found = 10, .wrong_values = 1}), HasSubstr("1 values"));
}

TEST_F(TallyCheckTest, NamesTheOutcomeThatFailed) {
  Tally tally;
  tally.Count(Outcome::kOk);
  tally.Count(Outcome::kPoolFull);
  tally.Count(Outcome::kDataLoss);
  EXPECT_EQ(tally.failed, 2);
  EXPECT_THAT(Error(Workload::kInsert, 3, tally), HasSubstr("pool full"));
}

}  // namespace
}  // namespace lodgekv::bench
