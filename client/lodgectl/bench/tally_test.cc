#include "client/lodgectl/bench/tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/conversions.h"
#include "client/reported_error.h"

namespace lodgekv::lodgectl {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using workload::YcsbOperation;

TEST(BenchTallyTest, CountsByOperation) {
  BenchTally tally;
  tally.Answered({.operation = YcsbOperation::kRead, .begin_ns = 100}, 150);
  tally.Answered({YcsbOperation::kUpdate, 100, 7, 0}, 300);
  tally.Answered({YcsbOperation::kRead, 400, 3, 2}, 500);
  EXPECT_EQ(tally.calls(YcsbOperation::kRead), 2);
  EXPECT_EQ(tally.AllCalls(), 3);
  EXPECT_EQ(tally.operations(), 11);
  EXPECT_EQ(tally.not_found(), 2);
  EXPECT_EQ(tally.last_ns(), 500);
  EXPECT_EQ(tally.live().operations, 11);
  EXPECT_EQ(tally.latencies(YcsbOperation::kUpdate).Percentile(1), 200);
  EXPECT_EQ(tally.AllLatencies().total(), 3);
}

TEST(BenchTallyTest, ErrorsGoByCodeAndReason) {
  BenchTally tally;
  const absl::Status full =
      client::ToAbsl(client::ErrorWith(grpc::StatusCode::RESOURCE_EXHAUSTED, "POOL_FULL"));
  tally.Failed(full);
  tally.Failed(absl::UnavailableError("no server"));
  tally.Failed(full);
  tally.OperationFailed(full);
  EXPECT_THAT(tally.errors(),
              ElementsAre(Pair("RESOURCE_EXHAUSTED (POOL_FULL)", 2), Pair("UNAVAILABLE", 1)));
  EXPECT_THAT(tally.operation_errors(), ElementsAre(Pair("RESOURCE_EXHAUSTED (POOL_FULL)", 1)));
  EXPECT_EQ(tally.AllCalls(), 0);
  EXPECT_EQ(tally.AllLatencies().total(), 0);
  EXPECT_EQ(tally.live().errors, 4);
}

TEST(BenchTallyTest, WhatWasNotSentCountsAsLate) {
  BenchTally tally;
  tally.NotSent(YcsbOperation::kRead, 200);
  EXPECT_EQ(tally.not_sent(), 1);
  EXPECT_EQ(tally.AllCalls(), 0);
  EXPECT_EQ(tally.AllLatencies().Percentile(1), 200);
}

TEST(BenchTallyTest, MergesEverything) {
  BenchTally one;
  BenchTally other;
  for (BenchTally* tally : {&one, &other}) {
    tally->Answered({YcsbOperation::kScan, 0, 5, 1}, tally == &one ? 10 : 20);
    tally->Failed(absl::InternalError(""));
    tally->OperationFailed(absl::InternalError(""));
    tally->Unanswered();
    tally->NotSent(YcsbOperation::kScan, 7);
  }
  one.Merge(other);
  EXPECT_EQ(one.AllCalls(), 2);
  EXPECT_EQ(one.operations(), 10);
  EXPECT_EQ(one.not_found(), 2);
  EXPECT_EQ(Sum(one.errors()), 2);
  EXPECT_EQ(Sum(one.operation_errors()), 2);
  EXPECT_EQ(one.unanswered(), 2);
  EXPECT_EQ(one.not_sent(), 2);
  EXPECT_EQ(one.last_ns(), 20);
  EXPECT_EQ(one.AllLatencies().total(), 4);
}

}  // namespace
}  // namespace lodgekv::lodgectl
