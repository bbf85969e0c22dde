#include "tests/crash/scenarios/batch_in_flight.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/crash/lab/case_name.h"
#include "tests/engines/engine_rows.h"

namespace lodgekv::test {
namespace {

using Parameter = std::tuple<EngineCase, CrashModel>;

class BatchInFlightTest : public ::testing::TestWithParam<Parameter> {};

TEST_P(BatchInFlightTest, IsThereAsAWholeOrNotAtAll) {
  const auto& [engine_case, model] = GetParam();
  const BatchInFlight seen = RunBatchInFlightScenario(engine_case, model, {});
  EXPECT_EQ(seen.with_part, 0U);
  EXPECT_EQ(seen.refused, 0U);
  EXPECT_GT(seen.with_none, 0U);
  EXPECT_GT(seen.with_all, 0U);
  EXPECT_GT(seen.images, 16U);
}

// Engines with a log. In the others writers may wait until the batch is over.
std::vector<EngineCase> CasesWithLog() {
  std::vector<EngineCase> cases = PersistentCases();
  std::erase_if(cases, [](const EngineCase& engine_case) {
    const EngineRows* rows = RowsOf(engine_case.engine->name);
    return rows == nullptr || !rows->has_log;
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Engines, BatchInFlightTest,
                         ::testing::Combine(::testing::ValuesIn(CasesWithLog()),
                                            ::testing::Values(CrashModel::kLinePrefix,
                                                              CrashModel::kTornWords)),
                         CrashCaseName());

}  // namespace
}  // namespace lodgekv::test
