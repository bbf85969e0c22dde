#include "tests/crash/scenarios/kill_then_cut.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/crash/lab/case_name.h"

namespace lodgekv::test {
namespace {

class KillThenCutTest : public ::testing::TestWithParam<std::tuple<EngineCase, CrashModel>> {};

TEST_P(KillThenCutTest, WhatRecoveryBelievedStays) {
  const auto& [engine_case, model] = GetParam();
  const KillThenCut seen = RunKillThenCutScenario(engine_case, model, {});
  EXPECT_EQ(seen.problem, std::nullopt) << *seen.problem;
  EXPECT_GT(seen.kills, 50U);
  EXPECT_GT(seen.images, seen.kills);
}

INSTANTIATE_TEST_SUITE_P(Engines, KillThenCutTest,
                         ::testing::Combine(::testing::ValuesIn(PersistentCases()),
                                            ::testing::Values(CrashModel::kLinePrefix,
                                                              CrashModel::kTornWords)),
                         CrashCaseName());

}  // namespace
}  // namespace lodgekv::test
