#include "bench/engine_bench/result.h"

#include <nlohmann/json.hpp>

#include "bench/engine_bench/statistics.h"
#include "bench/engine_bench/tsc_clock.h"

namespace lodgekv::bench {
namespace {

using Json = nlohmann::ordered_json;

void AddSpread(const std::string& name, const std::vector<double>& values, Json* row) {
  if (values.empty()) return;
  const Spread spread = SpreadOf(values);
  (*row)[name] = spread.median;
  (*row)[name + "_quartiles"] = {spread.low, spread.high};
}

void AddTarget(const TargetId& id, Json* row) {
  (*row)["key_shape"] = id.key_shape;
  if (!id.engine_options.empty()) (*row)["engine_options"] = id.engine_options;
}

// Of what is measured as a whole, without latencies.
template <class Result>
Json RowOfWhole(const Result& r, Workload workload, unsigned threads, uint64_t ops,
                double ops_per_second) {
  const auto keys = static_cast<double>(r.keys);
  return {
      {"engine", r.id.engine},
      {"key_format", r.id.key_format},
      {"workload", WorkloadName(workload)},
      {"threads", threads},
      {"keys", r.keys},
      {"ops", ops},
      {"ops_per_second", ops_per_second},
      {"lines_flushed_per_op", 0},
      {"fences_per_op", 0},
      {"media_writes_256b_per_op", 0},
      {"max_lines_per_op", 0},
      {"medium_bytes_per_key", static_cast<double>(r.memory.medium_bytes) / keys},
      {"dram_bytes_per_key", static_cast<double>(r.memory.dram_bytes) / keys},
      {"p50_ns", 0},
      {"p99_ns", 0},
      {"p999_ns", 0},
      {"p9999_ns", 0},
  };
}

}  // namespace

double PhaseResult::LatencyNs(double fraction) const {
  return latency.ticks().Percentile(fraction) * TscClock::Get().nanoseconds_per_tick();
}

double FullStageResult::Ns(const workload::Histogram& ticks, double fraction) {
  return ticks.Percentile(fraction) * TscClock::Get().nanoseconds_per_tick();
}

std::string ToJson(const PhaseResult& r) {
  Json row = {
      {"engine", r.id.engine},
      {"key_format", r.id.key_format},
      {"workload", r.workload},
      {"threads", r.threads},
      {"keys", r.keys},
      {"ops", r.ops},
      {"ops_per_second", r.OpsPerSecond()},
      {"lines_flushed_per_op", r.PerOp(r.cost.lines_flushed)},
      {"fences_per_op", r.PerOp(r.cost.fences)},
      {"media_writes_256b_per_op", r.PerOp(r.cost.media_writes_256b)},
      {"max_lines_per_op", r.latency.max_lines()},
      {"medium_bytes_per_key", r.PerKey(r.memory.medium_bytes)},
      {"dram_bytes_per_key", r.PerKey(r.memory.dram_bytes)},
      {"p50_ns", r.LatencyNs(0.5)},
      {"p99_ns", r.LatencyNs(0.99)},
      {"p999_ns", r.LatencyNs(0.999)},
      {"p9999_ns", r.LatencyNs(0.9999)},
      {"distribution", r.distribution},
  };
  AddTarget(r.id, &row);
  row["cpu_share"] = r.CpuShare();
  if (r.group.size > 1) {
    row["group"] = r.group.size;
    row["atomic"] = r.group.atomic;
  }
  for (const BaselineRatios& ratios : r.ratios_to_btrees) {
    AddSpread("ratio_to_" + ratios.baseline, ratios.times, &row);
    AddSpread("cpu_ratio_to_" + ratios.baseline, ratios.cpu_times, &row);
  }
  AddSpread("ratio_to_lone", r.ratios_to_lone, &row);
  AddSpread("ratio_to_first_engine", r.ratios_to_first, &row);
  AddSpread("speedup_over_one_thread", r.speedups, &row);
  if (!r.counters.empty()) row["counters"] = r.counters;
  return row.dump();
}

std::string ToJson(const WindowResult& r) {
  Json row = RowOfWhole(r, Workload::kWindow, 1, 2 * r.passed, r.OpsPerSecond());
  row["leaves"] = r.leaves;
  row["first_key_leaves"] = r.first_key_leaves;
  row["first_key_ns"] = r.first_key_ns;
  AddTarget(r.id, &row);
  return row.dump();
}

std::string ToJson(const FullStageResult& r) {
  Json row = RowOfWhole(r, Workload::kFull, 1, r.ticks.total(), 0);
  row["stage"] = r.stage;
  row["refused"] = r.refused;
  row["live_keys"] = r.live_keys;
  row["dram_bytes"] = r.memory.dram_bytes;
  row["p50_ns"] = r.Ns(r.ticks, 0.5);
  row["p99_ns"] = r.Ns(r.ticks, 0.99);
  row["p9999_ns"] = r.Ns(r.ticks, 0.9999);
  row["max_ns"] = r.Ns(r.ticks, 1);
  row["reader_p9999_ns"] = r.Ns(r.reader_ticks, 0.9999);
  row["reader_max_ns"] = r.Ns(r.reader_ticks, 1);
  AddTarget(r.id, &row);
  return row.dump();
}

std::string ToJson(const RecoveryResult& r) {
  Json row = RowOfWhole(r, Workload::kRecover, r.threads, r.keys, r.KeysPerSecond());
  row.update({
      {"recovery_milliseconds", r.report.milliseconds},
      {"open_milliseconds", r.open_milliseconds},
      {"threads_used", r.report.threads},
      {"keys_per_second_per_thread", r.KeysPerSecond() / r.report.threads},
      {"clean", r.report.clean},
      {"leaves_scanned", r.report.leaves_scanned},
      {"log_entries_replayed", r.report.log_entries_replayed},
      {"log_entries_dropped", r.report.log_entries_dropped},
      {"repairs", r.report.repairs},
      {"bytes_reclaimed", r.report.bytes_reclaimed},
  });
  AddTarget(r.id, &row);
  return row.dump();
}

}  // namespace lodgekv::bench
