#include "bench/engine_bench/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lodgekv::bench {
namespace {

using testing::HasSubstr;

BenchOptions Options(std::vector<Phase> phases) {
  BenchOptions options;
  options.phases = std::move(phases);
  options.keys = 10'000;
  options.ops = 1'000;
  options.latency_ops = 500;
  options.chunks = 10;
  options.threads = {1, 2};
  return options;
}

Phase Uniform(Workload workload) { return {workload, Distribution::kUniform}; }

TEST(MakePlanTest, LoadsUnreportedWhenNobodyAsks) {
  const auto plan = MakePlan(Options({Uniform(Workload::kRead)}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->phases.size(), 2);
  EXPECT_EQ(plan->phases[0].phase.workload, Workload::kLoad);
  EXPECT_FALSE(plan->phases[0].reported);
  EXPECT_TRUE(plan->phases[1].reported);
}

TEST(MakePlanTest, LoadsAllKeysOnceInBothPasses) {
  const auto plan = MakePlan(Options({Uniform(Workload::kLoad), Uniform(Workload::kInsert)}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const PhasePlan& load = plan->phases[0];
  EXPECT_EQ(load.ops + load.latency_ops, 10'000);
  EXPECT_EQ(load.variants, std::vector<Variant>(1));
  EXPECT_TRUE(load.reported);
  EXPECT_EQ(plan->capacity, 10'000 + 2 * 1'500);
}

TEST(MakePlanTest, GroupsWhatMayBeGrouped) {
  BenchOptions options =
      Options({Uniform(Workload::kInsert), Uniform(Workload::kUpdate), Uniform(Workload::kScan)});
  options.groups = {{}, {16, false}, {64, true}};
  const auto plan = MakePlan(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  using Variants = std::vector<Variant>;
  EXPECT_EQ(plan->phases[0].variants, Variants{{}});
  EXPECT_EQ(
      plan->phases[1].variants,
      (Variants{
          {1, {}}, {1, {16, false}}, {1, {64, true}}, {2, {}}, {2, {16, false}}, {2, {64, true}}}));
  EXPECT_EQ(plan->phases[2].variants,
            (Variants{{1, {}}, {1, {16, false}}, {2, {}}, {2, {16, false}}}));
  EXPECT_EQ(plan->phases[3].variants, (Variants{{1, {}}, {2, {}}}));
  EXPECT_EQ(plan->capacity, 10'000 + 6 * 1'500);
}

TEST(ParseGroupingTest, TakesANumberAndAnA) {
  EXPECT_EQ(*ParseGrouping("1"), Grouping{});
  EXPECT_EQ(*ParseGrouping("16"), (Grouping{16, false}));
  EXPECT_EQ(*ParseGrouping("16a"), (Grouping{16, true}));
  for (const char* wrong : {"", "a", "0", "1a", "16b", "-1", "1001"}) {
    EXPECT_FALSE(ParseGrouping(wrong).ok()) << wrong;
  }
}

TEST(MakePlanTest, CutsChunksThatFitInMemory) {
  BenchOptions options = Options({});
  options.keys = 100'000'000;
  const auto plan = MakePlan(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->phases[0].chunks, 100);
}

TEST(MakePlanTest, LeavesRecoveryOut) {
  const auto plan = MakePlan(Options({Uniform(Workload::kRecover)}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->phases.size(), 1);
}

TEST(MakePlanTest, RefusesToDeleteMoreThanThereIs) {
  BenchOptions options = Options({Uniform(Workload::kDelete)});
  options.ops = 5'000;
  const auto plan = MakePlan(options);
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("delete takes 11000 keys"));
  options.ops = 4'000;
  EXPECT_TRUE(MakePlan(options).ok());
}

TEST(MakePlanTest, WantsSequentialKeysForSequentialReads) {
  const Phase read = {Workload::kRead, Distribution::kSequential};
  const auto plan = MakePlan(Options({Uniform(Workload::kLoad), read}));
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("load:sequential"));
  EXPECT_TRUE(MakePlan(Options({{Workload::kLoad, Distribution::kSequential}, read})).ok());
  EXPECT_TRUE(MakePlan(Options({{Workload::kInsert, Distribution::kSequential}, read})).ok());
}

TEST(ParsePhaseTest, TakesADistributionBehindAColon) {
  const auto phase = ParsePhase("read:skewed", Distribution::kUniform);
  ASSERT_TRUE(phase.ok()) << phase.status();
  EXPECT_EQ(phase->workload, Workload::kRead);
  EXPECT_EQ(phase->distribution, Distribution::kSkewed);
  EXPECT_EQ(ParsePhase("scan", Distribution::kSequential)->distribution, Distribution::kSequential);
}

TEST(ParsePhaseTest, NamesWhatItDoesNotKnow) {
  const auto workload = ParsePhase("reed", Distribution::kUniform);
  EXPECT_THAT(std::string(workload.status().message()), HasSubstr("unknown workload 'reed'"));
  EXPECT_THAT(std::string(workload.status().message()), HasSubstr("read_absent"));
  const auto distribution = ParsePhase("read:zipf", Distribution::kUniform);
  EXPECT_THAT(std::string(distribution.status().message()), HasSubstr("'zipf'"));
}

}  // namespace
}  // namespace lodgekv::bench
