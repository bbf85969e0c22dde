#include "tests/crash/batch_in_flight.h"

#include <gtest/gtest.h>

#include "tests/crash/case_name.h"

namespace lodgekv::test {
namespace {

using Parameter = std::tuple<EngineCase, CrashModel>;

class BatchInFlightTest : public ::testing::TestWithParam<Parameter> {};

TEST_P(BatchInFlightTest, IsThereAsAWholeOrNotAtAll) {
  const auto& [engine_case, model] = GetParam();
  const BatchInFlight seen = LookAtBatchInFlight(engine_case, model, {});
  EXPECT_EQ(seen.with_part, 0U);
  EXPECT_EQ(seen.refused, 0U);
  EXPECT_GT(seen.with_none, 0U);
  EXPECT_GT(seen.with_all, 0U);
  EXPECT_GT(seen.images, 16U);
}

INSTANTIATE_TEST_SUITE_P(Engines, BatchInFlightTest,
                         ::testing::Combine(::testing::ValuesIn(PersistentCases()),
                                            ::testing::Values(CrashModel::kLinePrefix,
                                                              CrashModel::kTornWords)),
                         CrashCaseName());

}  // namespace
}  // namespace lodgekv::test
