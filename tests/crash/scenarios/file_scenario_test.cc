#include "tests/crash/scenarios/file_scenario.h"

#include <gtest/gtest.h>

#include <iostream>

#include "absl/strings/str_format.h"
#include "tests/crash/canaries/canaries.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

class FileScenarioTest : public ::testing::TestWithParam<EngineCase> {};

TEST_P(FileScenarioTest, WhatIsAcknowledgedIsThereAfterEveryCrash) {
  const FileOutcome seen = RunFileScenario(GetParam(), {}, Scaled(6));
  ASSERT_EQ(seen.problem, std::nullopt) << *seen.problem << "; " << SeedNote();
  std::cout << absl::StreamFormat(
      "%d images, %d of them after a cut, %d continued, %d groups replayed\n", seen.images,
      seen.nested_images, seen.continued, seen.replayed_groups);
  for (size_t moment = 0; moment < kMoments; ++moment) EXPECT_GT(seen.at[moment], 0U) << moment;
  EXPECT_GT(seen.nested_images, 100U);
  EXPECT_GT(seen.replayed_groups, seen.images);
}

// The scenario notices a mistake of an engine: a fence that the disk loses.
TEST_P(FileScenarioTest, NoticesAFenceThatIsMissing) {
  unsigned thrown = 0;
  for (const Canary& canary : CanariesOf(GetParam().engine->name)) {
    const bool fence = canary.fault.kind == Fault::Kind::kDropFence;
    if (!fence || canary.under == Under::kLinePrefix || canary.by != By::kExplorer) continue;
    ++thrown;
    if (RunFileScenario(GetParam(), canary.fault, 3).problem) return;
  }
  FAIL() << "none of " << thrown << " missing fences was noticed; " << SeedNote();
}

INSTANTIATE_TEST_SUITE_P(Engines, FileScenarioTest, ::testing::ValuesIn(PersistentCases()),
                         [](const auto& test) { return test.param.Name(); });

}  // namespace
}  // namespace lodgekv::test
