#include "bench/engine_bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lodgekv::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

PhaseResult Sample() {
  PhaseResult result;
  result.id = {"lodgetree", "", "fixed64", "integer"};
  result.workload = "insert";
  result.distribution = "uniform";
  result.keys = 1000;
  result.ops = 200;
  result.seconds = 0.0001;
  result.cost = {.lines_flushed = 500, .fences = 210, .media_writes_256b = 300, .bytes_stored = 1};
  result.live_keys = 1200;
  result.memory = {.medium_bytes = 36'000, .dram_bytes = 6'000};
  return result;
}

TEST(TextTableTest, AlignsLeftAndRight) {
  TextTable table({"name", "value"}, 1);
  table.Add({"a", "1"});
  table.Add({"longer", "12.50"});
  EXPECT_EQ(table.Format(), "name    value\na           1\nlonger  12.50\n");
}

TEST(FormatRowsTest, AlignsValues) {
  EXPECT_EQ(FormatRows("title", {{"a", "1"}, {"long", ""}}), "title:\n  a     1\n  long  -\n");
}

TEST(FormatResultsTest, LeavesOutColumnsThatSayNothing) {
  PhaseResult result = Sample();
  EXPECT_THAT(FormatResults({result}), Not(HasSubstr("speedup  ")));
  result.speedups = {1.5, 1.9, 1.8};
  result.ratios_to_btrees = {{"btree_map", {0.5, 0.7, 0.6}, {}}};
  const std::string text = FormatResults({result});
  EXPECT_THAT(text, HasSubstr("1.80 [1.65-1.85]"));
  EXPECT_THAT(text, HasSubstr("0.60 [0.55-0.65]"));
  EXPECT_THAT(text, HasSubstr("2.500"));
}

TEST(FormatResultsTest, ShowsProcessorTimeWhereThreadsWereDisturbed) {
  PhaseResult result = Sample();
  result.ratios_to_btrees = {{"btree_map", {}, {0.4}}};
  result.thread_seconds = 1;
  result.cpu_seconds = 0.99;
  EXPECT_THAT(FormatResults({result}), Not(HasSubstr("0.40 [")));
  result.cpu_seconds = 0.5;
  EXPECT_THAT(FormatResults({result}), HasSubstr("0.40 ["));
}

TEST(ToJsonTest, HasEveryFigure) {
  PhaseResult result = Sample();
  result.ratios_to_btrees = {{"btree_map", {0.5, 0.7, 0.6}, {}}};
  EXPECT_FALSE(nlohmann::json::parse(ToJson(result)).contains("counters"));
  result.counters = {{"node_splits_total", 3}, {"leaves", 17}};
  const auto row = nlohmann::json::parse(ToJson(result));
  EXPECT_EQ(row["engine"], "lodgetree");
  EXPECT_EQ(row["key_format"], "fixed64");
  EXPECT_EQ(row["workload"], "insert");
  EXPECT_EQ(row["threads"], 1);
  EXPECT_EQ(row["keys"], 1000);
  EXPECT_EQ(row["ops"], 200);
  EXPECT_DOUBLE_EQ(row["ops_per_second"], 2e6);
  EXPECT_DOUBLE_EQ(row["lines_flushed_per_op"], 2.5);
  EXPECT_DOUBLE_EQ(row["fences_per_op"], 1.05);
  EXPECT_DOUBLE_EQ(row["media_writes_256b_per_op"], 1.5);
  EXPECT_EQ(row["max_lines_per_op"], 0);
  EXPECT_DOUBLE_EQ(row["medium_bytes_per_key"], 30);
  EXPECT_DOUBLE_EQ(row["dram_bytes_per_key"], 5);
  EXPECT_DOUBLE_EQ(row["ratio_to_btree_map"], 0.6);
  EXPECT_EQ(row["counters"]["node_splits_total"], 3);
  EXPECT_EQ(row["counters"]["leaves"], 17);
  EXPECT_EQ(row["distribution"], "uniform");
  EXPECT_EQ(row["key_shape"], "integer");
  for (const char* name : {"p50_ns", "p99_ns", "p999_ns", "p9999_ns"}) {
    EXPECT_TRUE(row[name].is_number());
  }
}

TEST(ToJsonTest, HasTheSameFieldsForRecovery) {
  RecoveryResult recovery;
  recovery.id = {"lodgetree", "", "fixed64", "integer"};
  recovery.keys = 1'000'000;
  recovery.report.milliseconds = 50;
  recovery.threads = 2;
  recovery.report.threads = 2;
  const auto row = nlohmann::json::parse(ToJson(recovery));
  EXPECT_EQ(row["workload"], "recover");
  EXPECT_DOUBLE_EQ(row["ops_per_second"], 20e6);
  EXPECT_DOUBLE_EQ(row["keys_per_second_per_thread"], 10e6);
  const auto phase = nlohmann::json::parse(ToJson(Sample()));
  for (const auto& [name, value] : phase.items()) {
    EXPECT_TRUE(row.contains(name) || name == "distribution" || name == "cpu_share") << name;
  }
}

}  // namespace
}  // namespace lodgekv::bench
