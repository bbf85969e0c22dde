#include "tests/crash/scenarios/released_logs.h"

#include <gtest/gtest.h>

namespace lodgekv::test {
namespace {

class ReleasedLogsTest : public ::testing::TestWithParam<CrashModel> {};

TEST_P(ReleasedLogsTest, AreNotFoundAgain) {
  const ReleasedLogs seen = RunReleasedLogsScenario(GetParam(), {});
  EXPECT_EQ(seen.with_old_logs, 0U);
  EXPECT_GT(seen.with_free_chunk, 0U);
}

TEST_P(ReleasedLogsTest, WithoutTheFlushOrItsFenceTheyAre) {
  for (const Fault::Kind kind : {Fault::Kind::kForgetFlushes, Fault::Kind::kDropFence}) {
    EXPECT_GT(RunReleasedLogsScenario(GetParam(), {kind, "pmem.zero_heads.1"}).with_old_logs, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReleasedLogsTest,
                         ::testing::Values(CrashModel::kLinePrefix, CrashModel::kTornWords));

}  // namespace
}  // namespace lodgekv::test
