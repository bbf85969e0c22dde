#include "tests/crash/kill_then_cut.h"

#include <gtest/gtest.h>

#include <tuple>

namespace lodgekv::test {
namespace {

class KillThenCutTest : public ::testing::TestWithParam<std::tuple<EngineCase, CrashModel>> {};

TEST_P(KillThenCutTest, WhatRecoveryBelievedStays) {
  const auto& [engine_case, model] = GetParam();
  const KillThenCut seen = LookAtKillThenCut(engine_case, model, {});
  EXPECT_EQ(seen.problem, std::nullopt) << *seen.problem;
  EXPECT_GT(seen.kills, 50U);
  EXPECT_GT(seen.images, seen.kills);
}

struct ParameterName {
  std::string operator()(
      const ::testing::TestParamInfo<std::tuple<EngineCase, CrashModel>>& info) const {
    const auto& [engine_case, model] = info.param;
    return engine_case.Name() + (model == CrashModel::kLinePrefix ? "_prefixes" : "_torn");
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, KillThenCutTest,
                         ::testing::Combine(::testing::ValuesIn(PersistentCases()),
                                            ::testing::Values(CrashModel::kLinePrefix,
                                                              CrashModel::kTornWords)),
                         ParameterName());

}  // namespace
}  // namespace lodgekv::test
