#include "tests/crash/scenarios/bulk_load_scenario.h"

#include <gtest/gtest.h>

#include <iostream>
#include <tuple>

#include "absl/strings/str_format.h"
#include "tests/crash/lab/case_name.h"

namespace lodgekv::test {
namespace {

class BulkLoadScenarioTest : public ::testing::TestWithParam<std::tuple<EngineCase, CrashModel>> {};

TEST_P(BulkLoadScenarioTest, AllOfItIsThereOrNothing) {
  const auto& [engine_case, model] = GetParam();
  const BulkLoadOutcome seen = RunBulkLoadScenario(engine_case, model, {});
  EXPECT_EQ(seen.problem, std::nullopt) << *seen.problem;
  std::cout << absl::StreamFormat("%d images, %d of them without an engine\n", seen.images,
                                  seen.without_engine);
  EXPECT_GT(seen.without_engine, 500U);
  EXPECT_GT(seen.images - seen.without_engine, 500U);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BulkLoadScenarioTest);
INSTANTIATE_TEST_SUITE_P(Engines, BulkLoadScenarioTest,
                         ::testing::Combine(::testing::ValuesIn(BulkLoadCases()),
                                            ::testing::Values(CrashModel::kLinePrefix,
                                                              CrashModel::kTornWords)),
                         CrashCaseName());

}  // namespace
}  // namespace lodgekv::test
