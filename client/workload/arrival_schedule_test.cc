#include "client/workload/arrival_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lodgekv::workload {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kSecondNs = 1'000'000'000;

// The latencies of a server that answers at once, but for a client that looks only at `times`.
std::vector<uint64_t> LatenciesAt(ArrivalSchedule schedule, const std::vector<uint64_t>& times) {
  std::vector<uint64_t> latencies;
  for (const uint64_t now : times) {
    for (; schedule.IsDue(now); schedule.Take()) latencies.push_back(now - schedule.next_ns());
  }
  return latencies;
}

TEST(ArrivalScheduleTest, CallsAreDueAtAnEvenRate) {
  ArrivalSchedule schedule(100, 100 + kSecondNs, 4);
  std::vector<uint64_t> due;
  for (; !schedule.IsOver(); schedule.Take()) due.push_back(schedule.next_ns());
  EXPECT_THAT(due, ElementsAre(100, 250'000'100, 500'000'100, 750'000'100));
}

TEST(ArrivalScheduleTest, WhatIsRoundedOffDoesNotAddUp) {
  constexpr uint64_t kRate = 70'001;
  ArrivalSchedule schedule(0, 3'600 * kSecondNs, kRate);
  for (uint64_t i = 0; i < 60 * kRate; ++i) schedule.Take();
  EXPECT_EQ(schedule.next_ns(), 60 * kSecondNs);
}

TEST(ArrivalScheduleTest, NothingIsDueBeforeItsTimeOrAfterTheEnd) {
  ArrivalSchedule schedule(100, 101, 1'000);
  EXPECT_FALSE(schedule.IsDue(99));
  EXPECT_TRUE(schedule.IsDue(100));
  schedule.Take();
  EXPECT_TRUE(schedule.IsOver());
  EXPECT_FALSE(schedule.IsDue(kSecondNs));
}

TEST(ArrivalScheduleTest, CallsThatWaitForABusyClientAreAsLateAsTheyAre) {
  const ArrivalSchedule schedule(0, 10'000'000, 1'000);
  EXPECT_THAT(LatenciesAt(schedule, {0, 1'000'000, 4'500'000, 5'000'000}),
              ElementsAre(0, 0, 2'500'000, 1'500'000, 500'000, 0));
}

}  // namespace
}  // namespace lodgekv::workload
