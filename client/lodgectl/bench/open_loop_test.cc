#include "client/lodgectl/bench/open_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lodgekv::lodgectl {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

BenchPlan PlanOf(uint64_t rate, uint64_t threads) {
  BenchPlan plan;
  plan.rate = rate;
  plan.threads = threads;
  return plan;
}

std::vector<uint64_t> DueTimes(LaneSchedule schedule) {
  std::vector<uint64_t> due;
  for (; !schedule.IsOver(); schedule.Take()) due.push_back(schedule.next_ns());
  return due;
}

TEST(LaneScheduleTest, LanesTogetherMakeAllCalls) {
  BenchSpan span;
  span.begin_ns = 5;
  span.end_ns = 5 + kSecondNs;
  const std::vector<uint64_t> all = DueTimes(LaneSchedule(PlanOf(1'000, 1), {1, 1, 0}, span));
  EXPECT_EQ(all.size(), 1'000);
  std::vector<uint64_t> together;
  for (uint64_t lane = 0; lane < 3; ++lane) {
    const auto some = DueTimes(LaneSchedule(PlanOf(1'000, 3), {1, 1, lane}, span));
    together.insert(together.end(), some.begin(), some.end());
  }
  std::sort(together.begin(), together.end());
  EXPECT_EQ(together, all);
}

TEST(LaneScheduleTest, WhatComesAfterACutIsNotDue) {
  BenchSpan span;
  span.begin_ns = 0;
  span.end_ns = kSecondNs;
  LaneSchedule schedule(PlanOf(4, 1), {1, 1, 0}, span);
  span.end_ns = kSecondNs / 2;
  BenchTally tally;
  workload::YcsbChooser chooser(workload::WorkloadOf('c'), 1, 1);
  CountNotSent(schedule, span, chooser, tally);
  EXPECT_EQ(tally.not_sent(), 2);
  EXPECT_EQ(tally.AllLatencies().Percentile(1), tally.AllLatencies().Percentile(0.99));
  EXPECT_NEAR(tally.AllLatencies().Percentile(1), 0.5 * kSecondNs, 0.004 * kSecondNs);
}

// A run whose begin is long past: all calls are late by what they are.
TEST(LaneScheduleTest, NothingWaitsForASlotAfterTheEnd) {
  BenchSpan span;
  span.begin_ns = NowNs() - 2 * kSecondNs;
  span.end_ns = span.begin_ns + kSecondNs;
  LaneSchedule schedule(PlanOf(10, 1), {1, 1, 0}, span);
  FreeSlots<int> slots;
  for (int slot = 0; slot < 3; ++slot) slots.Add(slot);
  std::vector<uint64_t> begun;
  BeginDueCalls(schedule, span, slots, [&](int, uint64_t due_ns) { begun.push_back(due_ns); });
  EXPECT_THAT(begun, testing::ElementsAre(span.begin_ns, span.begin_ns + kSecondNs / 10,
                                          span.begin_ns + kSecondNs / 5));
  EXPECT_EQ(schedule.next_ns(), span.begin_ns + 3 * kSecondNs / 10);
}

}  // namespace
}  // namespace lodgekv::lodgectl
