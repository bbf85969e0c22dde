#include "client/lodgectl/bench/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lodgekv::lodgectl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using workload::YcsbDistribution;
using workload::YcsbOperation;

BenchPlan PlanOf(const BenchOptions& options) {
  const absl::StatusOr<BenchPlan> plan = MakePlan(options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : BenchPlan();
}

BenchOptions Of(const std::string& workload) {
  BenchOptions options;
  options.workload = workload;
  return options;
}

std::string Refusal(const BenchOptions& options) {
  const absl::StatusOr<BenchPlan> plan = MakePlan(options);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(BenchPlanTest, EachWorkloadHasItsOperations) {
  const std::vector<std::pair<std::string, std::vector<unsigned>>> cases{
      {"get", {100, 0, 0, 0, 0}},         {"put", {0, 100, 0, 0, 0}},
      {"mixed", {50, 50, 0, 0, 0}},       {"batch-get", {100, 0, 0, 0, 0}},
      {"batch-write", {0, 100, 0, 0, 0}}, {"session", {0, 100, 0, 0, 0}},
      {"scan", {0, 0, 0, 100, 0}},        {"ycsb-a", {50, 50, 0, 0, 0}},
      {"ycsb-e", {0, 0, 5, 95, 0}},       {"ycsb-f", {50, 0, 0, 0, 50}}};
  for (const auto& [name, percent] : cases) {
    const BenchPlan plan = PlanOf(Of(name));
    EXPECT_EQ(std::vector<unsigned>(plan.mix.percent.begin(), plan.mix.percent.end()), percent)
        << name;
  }
}

TEST(BenchPlanTest, DefaultsFollowTheWorkload) {
  const BenchPlan get = PlanOf(Of("get"));
  EXPECT_EQ(get.mix.distribution, YcsbDistribution::kUniform);
  EXPECT_EQ(get.value_bytes, 100);
  EXPECT_EQ(get.in_flight, 16);
  EXPECT_EQ(get.connections, 4);
  EXPECT_EQ(get.batch, 0);
  const BenchPlan ycsb = PlanOf(Of("ycsb-d"));
  EXPECT_EQ(ycsb.mix.distribution, YcsbDistribution::kLatest);
  EXPECT_EQ(ycsb.value_bytes, 1'000);
  BenchOptions options = Of("get");
  options.rate = 100;
  EXPECT_EQ(PlanOf(options).in_flight, 1'000);
  options.in_flight = 2;
  EXPECT_EQ(PlanOf(options).connections, 2);
  EXPECT_EQ(PlanOf(Of("batch-get")).batch, 100);
}

TEST(BenchPlanTest, WhatReadsExpectsRecords) {
  EXPECT_FALSE(PlanOf(Of("put")).reads());
  EXPECT_FALSE(PlanOf(Of("session")).reads());
  for (const char* name : {"get", "mixed", "scan", "batch-get", "ycsb-e", "ycsb-f"}) {
    EXPECT_TRUE(PlanOf(Of(name)).reads()) << name;
  }
}

TEST(BenchPlanTest, LoadingAndCleaningNeedNoWorkload) {
  BenchOptions options;
  options.load = true;
  EXPECT_FALSE(PlanOf(options).runs());
  options.rate = 5;
  EXPECT_THAT(Refusal(options), HasSubstr("--rate needs a --workload"));
  EXPECT_THAT(Refusal({}),
              AllOf(HasSubstr("--workload is missing"), HasSubstr("ycsb-a"), HasSubstr("--load")));
}

TEST(BenchPlanTest, RefusalsSayWhatWouldBeRight) {
  using Change = std::function<void(BenchOptions&)>;
  const std::vector<std::pair<Change, std::string>> cases{
      {[](auto& o) { o.workload = "gets"; }, "--workload: 'gets' is none of get, put"},
      {[](auto& o) { o.workload = "ycsb-g"; }, "--workload: 'ycsb-g' is none of"},
      {[](auto& o) { o.distribution = "zipf"; },
       "--distribution: 'zipf' is none of uniform, zipfian, latest"},
      {[](auto& o) { o.key_bytes = 15; }, "--key-bytes: '15' is too short"},
      {[](auto& o) { o.key_bytes = 17; }, "--keys: '100000' is more than 16"},
      {[](auto& o) { o.connections = 17; }, "--connections: '17' is more than --in-flight, 16"},
      {[](auto& o) { o.threads = 5; }, "--threads: '5' is more than --connections, 4"},
      {[](auto& o) { o.batch = 5; }, "--batch is for batch-get"},
      {[](auto& o) { o.workload = "batch-write", o.keys = 9, o.batch = 10; },
       "--batch: '10' is more than --keys, 9"},
      {[](auto& o) { o.workload = "session", o.threads = 2; }, "--threads is not for session"},
      {[](auto& o) { o.fixed64 = true, o.value_bytes = 9; }, "--value-bytes: '9' is not 8"},
      {[](auto& o) { o.fixed64 = true, o.key_bytes = 32; }, "--key-bytes: '32' is not 8"},
      {[](auto& o) { o.fixed64 = true, o.keys = 1'000'000'000; }, "is more than 268435456"}};
  for (const auto& [change, words] : cases) {
    BenchOptions options = Of("get");
    change(options);
    EXPECT_THAT(Refusal(options), HasSubstr(words));
  }
}

TEST(BenchPlanTest, ThreadsShareEvenly) {
  BenchOptions options = Of("get");
  options.threads = 3;
  const BenchPlan plan = PlanOf(options);
  std::vector<std::pair<uint64_t, uint64_t>> shares;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    const BenchShare share = ShareOf(plan, thread);
    EXPECT_EQ(share.first_call, thread);
    EXPECT_GE(share.in_flight, share.connections);
    shares.emplace_back(share.connections, share.in_flight);
  }
  EXPECT_THAT(shares, testing::ElementsAre(std::pair(2, 6), std::pair(1, 5), std::pair(1, 5)));
}

}  // namespace
}  // namespace lodgekv::lodgectl
