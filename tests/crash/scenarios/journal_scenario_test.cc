#include "tests/crash/scenarios/journal_scenario.h"

#include <gtest/gtest.h>

#include <iostream>

#include "absl/strings/str_format.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

void Print(const JournalOutcome& seen) {
  std::cout << absl::StreamFormat(
      "%d images, %d replays cut, %d checkpoints, %d syncs of the pool, %d times around\n",
      seen.images, seen.replays_cut, seen.checkpoints, seen.pool_syncs, seen.times_around);
}

TEST(JournalOutcomeTest, WhatIsFencedIsThereAfterEveryCrash) {
  const JournalOutcome seen = RunJournalScenario({}, Scaled(16));
  ASSERT_EQ(seen.problem, std::nullopt) << *seen.problem << "; " << SeedNote();
  Print(seen);
  for (const Moment moment :
       {Moment::kFence, Moment::kCheckpoint, Moment::kGroup, Moment::kWriteBack, Moment::kSync}) {
    EXPECT_GT(seen.at[static_cast<size_t>(moment)], 100U) << static_cast<int>(moment);
  }
  EXPECT_GT(seen.replays_cut, 100U);
  EXPECT_GT(seen.times_around, 20U);
}

TEST(JournalOutcomeTest, AndSoItIsWithRealThreads) {
  const JournalOutcome seen = RunJournalScenarioOfThreads({}, Scaled(6));
  ASSERT_EQ(seen.problem, std::nullopt) << *seen.problem << "; " << SeedNote();
  Print(seen);
  EXPECT_GT(seen.images, 1000U);
  EXPECT_GT(seen.times_around, 1U);
}

// A mistake that cannot be requested from the journal: the scenario makes it itself.
TEST(JournalOutcomeTest, NoticesLinesThatAreCopiedAtTheirFlush) {
  EXPECT_NE(RunJournalScenario({}, 12, Copied::kAtTheFlush).problem, std::nullopt);
}

}  // namespace
}  // namespace lodgekv::test
