#include "bench/engine_bench/phase_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>

#include "bench/engine_bench/btree_target.h"

namespace lodgekv::bench {
namespace {

using testing::HasSubstr;

// Holds keys in a map, and can lose one.
class FakeTarget final : public Target {
 public:
  const TargetId& id() const override { return id_; }
  const KeyWriter& key_writer() const override { return key_writer_; }
  uint32_t value_bytes() const override { return 8; }
  bool discards() const override { return false; }
  MemoryUse GetMemoryUse() const override { return {.medium_bytes = 7, .dram_bytes = 5}; }
  void VisitCounters(CounterVisitor visitor) const override {
    visitor({"ops_total", "Operations", CounterKind::kCounter, static_cast<double>(ops_)});
    visitor({"keys", "Keys", CounterKind::kGauge, static_cast<double>(keys.size())});
  }

  Tally Run(const OpBatch& batch, LatencyProbe* probe) override {
    const std::lock_guard lock(mu_);
    batches_with_probe += probe == nullptr ? 0 : 1;
    ++groups[batch.group.size];
    Tally tally;
    for (size_t i = 0; i < batch.size(); ++i) {
      if (probe != nullptr) probe->Before();
      Apply(batch, i, &tally);
      if (probe != nullptr) probe->After();
    }
    ops_ += batch.size();
    return tally;
  }

  std::map<uint64_t, uint8_t> keys;
  int batches_with_probe = 0;
  std::map<unsigned, int> groups;  // batches, by size

 private:
  void Apply(const OpBatch& batch, size_t i, Tally* tally) {
    if (AddsKey(batch.workload, i) || batch.workload == Workload::kUpdate) {
      keys[batch.numbers[i]] = batch.generation;
    } else if (batch.workload == Workload::kDelete) {
      tally->found += keys.erase(batch.numbers[i]);
    } else {
      tally->found += keys.contains(batch.numbers[i]) ? 1 : 0;
    }
  }

  std::mutex mu_;
  uint64_t ops_ = 0;
  TargetId id_{"fake", "", "fixed64", "integer"};
  KeyWriter key_writer_{KeyFormat::kFixed64, KeyShape::kRandom16, 1, 1};
};

PhasePlan PlanOf(Workload workload, const std::vector<unsigned>& threads) {
  PhasePlan plan;
  plan.phase = {workload, Distribution::kUniform};
  plan.ops = 1000;
  plan.latency_ops = 300;
  for (const unsigned count : threads) plan.variants.push_back({count, {}});
  plan.chunks = 10;
  return plan;
}

class PhaseRunnerTest : public testing::Test {
 protected:
  std::vector<PhaseResult> MustRun(Workload workload, const std::vector<unsigned>& threads) {
    std::vector<PhaseResult> results;
    const absl::Status status = runner_.Run(PlanOf(workload, threads), 1300, &results);
    EXPECT_TRUE(status.ok()) << status;
    return results;
  }
  uint64_t BtreeKeys() {
    OpBatch all;
    all.workload = Workload::kRead;
    for (const auto& [number, generation] : fake_.keys) all.numbers.push_back(number);
    return btree_.Run(all, nullptr).found;
  }

  WorkerPool workers_{3, /*pin=*/false};
  FakeTarget fake_;
  BtreeTarget btree_{1};
  BtreeTarget huge_{1, BtreeMemory::Pages::kHuge};
  PhaseRunner runner_{workers_, {&fake_}, {&btree_, &huge_}, 1};
};

TEST_F(PhaseRunnerTest, GivesEveryTargetTheSameKeys) {
  const auto load = MustRun(Workload::kLoad, {1});
  EXPECT_EQ(fake_.keys.size(), 1300);
  EXPECT_EQ(BtreeKeys(), 1300);
  const auto insert = MustRun(Workload::kInsert, {1, 3});
  EXPECT_EQ(fake_.keys.size(), 3 * 1300);
  EXPECT_EQ(BtreeKeys(), 3 * 1300);
  MustRun(Workload::kMixed, {2});
  MustRun(Workload::kDelete, {1, 2});
  EXPECT_EQ(BtreeKeys(), fake_.keys.size());
}

TEST_F(PhaseRunnerTest, CountsBothPasses) {
  MustRun(Workload::kLoad, {1});
  const auto results = MustRun(Workload::kRead, {1, 2});
  ASSERT_EQ(results.size(), 4);
  for (const PhaseResult& result : results) {
    EXPECT_EQ(result.ops, 1000);
    EXPECT_EQ(result.latency.ticks().total(), 300);
    EXPECT_GT(result.seconds, 0);
    EXPECT_EQ(result.live_keys, 1300);
    EXPECT_EQ(result.keys, 1300);
  }
  EXPECT_EQ(results[0].threads, 1);
  EXPECT_EQ(results[1].threads, 2);
  EXPECT_EQ(results[2].id.engine, "btree_map");
  EXPECT_EQ(results[3].id.engine, "btree_map_huge_pages");
  EXPECT_EQ(results[1].memory.medium_bytes, 7);
  // One batch for each thread and chunk, in the latency pass alone.
  EXPECT_EQ(fake_.batches_with_probe, 10 + 3 * 10);
}

TEST_F(PhaseRunnerTest, TellsWhatTheTargetCountedInTheThroughputPass) {
  MustRun(Workload::kLoad, {1});
  const auto results = MustRun(Workload::kInsert, {1, 2});
  for (size_t i : {0, 1}) EXPECT_EQ(results[i].counters.at("ops_total"), 1000) << i;
  EXPECT_EQ(results[1].counters.at("keys"), 1300 + 2 * 1000 - 100);  // before one thread's last 100
  EXPECT_EQ(results[0].counters.at("keys"), 1300 + 2 * 1000);
  EXPECT_TRUE(results[2].counters.empty()) << "a baseline counts nothing";
}

TEST_F(PhaseRunnerTest, HasARatioForEachChunk) {
  MustRun(Workload::kLoad, {1});
  const auto results = MustRun(Workload::kRead, {1, 2});
  EXPECT_EQ(results[0].ratios_to_btrees[0].times.size(), 10);
  EXPECT_TRUE(results[0].speedups.empty());
  EXPECT_TRUE(results[1].ratios_to_btrees.empty());
  EXPECT_EQ(results[1].speedups.size(), 10);
  EXPECT_TRUE(results[2].ratios_to_btrees.empty());
}

TEST_F(PhaseRunnerTest, ComparesGroupsWithLoneOperations) {
  MustRun(Workload::kLoad, {1});
  PhasePlan plan = PlanOf(Workload::kInsert, {});
  plan.variants = {{1, {}}, {1, {16, false}}, {1, {64, true}}, {2, {16, false}}};
  std::vector<PhaseResult> results;
  ASSERT_TRUE(runner_.Run(plan, 1300, &results).ok());
  ASSERT_EQ(results.size(), 4 + 2);
  EXPECT_TRUE(results[0].ratios_to_lone.empty());
  EXPECT_EQ(results[1].ratios_to_lone.size(), 10);
  EXPECT_EQ(results[2].ratios_to_lone.size(), 10);
  EXPECT_TRUE(results[3].ratios_to_lone.empty()) << "two threads have no lone operations here";
  EXPECT_EQ(results[3].speedups.size(), 10);
  EXPECT_TRUE(results[2].speedups.empty());
  EXPECT_EQ(results[2].group, (Grouping{64, true}));
  EXPECT_EQ(results[4].group, Grouping{}) << "a baseline has none";
  EXPECT_EQ(results[2].ratios_to_btrees[1].times.size(), 10);
  EXPECT_EQ(fake_.groups, (std::map<unsigned, int>{{1, 2 * 20}, {16, 3 * 20}, {64, 20}}));
  EXPECT_EQ(BtreeKeys(), fake_.keys.size());
}

TEST_F(PhaseRunnerTest, ChainsReadsOfEveryBaseline) {
  MustRun(Workload::kLoad, {1});
  const auto results = MustRun(Workload::kReadChained, {1});
  ASSERT_EQ(results.size(), 3);
  for (const PhaseResult& result : results) EXPECT_EQ(result.ops, 1000) << result.id.engine;
  EXPECT_EQ(results[0].ratios_to_btrees[1].baseline, "btree_map_huge_pages");
}

TEST_F(PhaseRunnerTest, AddsRepeatsUp) {
  MustRun(Workload::kLoad, {1});
  std::vector<PhaseResult> results;
  const PhasePlan plan = PlanOf(Workload::kUpdate, {1});
  ASSERT_TRUE(runner_.Run(plan, 1300, &results).ok());
  ASSERT_TRUE(runner_.Run(plan, 1300, &results).ok());
  ASSERT_EQ(results.size(), 3);
  EXPECT_EQ(results[0].ops, 2000);
  EXPECT_EQ(results[0].ratios_to_btrees[0].times.size(), 20);
}

TEST_F(PhaseRunnerTest, FailsWhenATargetLosesAKey) {
  MustRun(Workload::kLoad, {1});
  for (auto it = fake_.keys.begin(); it != fake_.keys.end();) {
    it = it->first % 3 == 0 ? fake_.keys.erase(it) : std::next(it);
  }
  std::vector<PhaseResult> results;
  const absl::Status status = runner_.Run(PlanOf(Workload::kRead, {1}), 1300, &results);
  EXPECT_THAT(std::string(status.message()), HasSubstr("fake (fixed64), read"));
}

TEST_F(PhaseRunnerTest, FailsWhenNothingIsLeftToDelete) {
  MustRun(Workload::kLoad, {1});
  MustRun(Workload::kDelete, {1});
  std::vector<PhaseResult> results;
  const absl::Status status = runner_.Run(PlanOf(Workload::kDelete, {1}), 1300, &results);
  EXPECT_THAT(std::string(status.message()), HasSubstr("keys are left to delete"));
}

}  // namespace
}  // namespace lodgekv::bench
