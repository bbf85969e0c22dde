// The results of one phase, target and thread count; and their JSON form.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/engine_bench/run_batch.h"
#include "bench/engine_bench/target.h"
#include "bench/engine_bench/workload.h"
#include "index/cost.h"
#include "index/engine_info.h"

namespace lodgekv::bench {

// By name: a target's counters and gauges.
using CounterValues = std::map<std::string, double, std::less<>>;

// Of times, one for each chunk.
struct BaselineRatios {
  std::string baseline;
  std::vector<double> times;
  // The same of time on a processor: holds where other processes were in the way, but knows nothing
  // of what an engine waited for.
  std::vector<double> cpu_times;
};

struct PhaseResult {
  TargetId id;
  std::string workload;
  std::string distribution;
  unsigned threads = 1;
  Grouping group;
  uint64_t keys = 0;  // loaded before the phases

  // Throughput pass. Ratios are of times for the same operations in the same chunk.
  uint64_t ops = 0;
  double seconds = 0;
  double thread_seconds = 0;
  double cpu_seconds = 0;
  Cost cost;
  CounterValues counters;  // what they rose by; gauges as they were in the end
  std::vector<BaselineRatios> ratios_to_btrees;  // one thread only
  std::vector<double> ratios_to_first;           // the same phase of the run's first engine
  std::vector<double> ratios_to_lone;            // of an operation of a group, to one alone
  std::vector<double> speedups;                  // operations per second over those of one thread

  LatencyProbe latency;

  // At the end of the phase.
  uint64_t live_keys = 0;
  MemoryUse memory;

  double OpsPerSecond() const { return seconds > 0 ? static_cast<double>(ops) / seconds : 0; }
  // The share of its time that a thread was on a processor: well below 1 if other processes
  // interfered, or the thread waited for the medium. Reading the two clocks costs more than a very
  // short phase: hence the bound.
  double CpuShare() const {
    return thread_seconds > 0 ? std::min(1.0, cpu_seconds / thread_seconds) : 0;
  }
  double PerOp(uint64_t count) const {
    return ops == 0 ? 0 : static_cast<double>(count) / static_cast<double>(ops);
  }
  double PerKey(uint64_t bytes) const {
    return live_keys == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(live_keys);
  }
  // 0 if no operation was timed separately.
  double LatencyNs(double fraction) const;
};

struct RecoveryResult {
  TargetId id;
  uint64_t keys = 0;
  unsigned threads = 1;  // that it might use; the report says how many it did
  RecoveryReport report;
  double open_milliseconds = 0;  // of the whole open, mapping the pool included
  MemoryUse memory;

  double KeysPerSecond() const {
    return report.milliseconds > 0 ? static_cast<double>(keys) * 1e3 / report.milliseconds : 0;
  }
};

struct WindowResult {
  TargetId id;
  uint64_t keys = 0;    // alive
  uint64_t passed = 0;  // put, and as many deleted
  double seconds = 0;
  MemoryUse memory;  // at the end, like the following
  uint64_t leaves = 0;
  uint64_t first_key_leaves = 0;  // visited by a scan up to its first key
  double first_key_ns = 0;

  double OpsPerSecond() const {
    return seconds > 0 ? 2 * static_cast<double>(passed) / seconds : 0;
  }
};

// One stage of `full`.
struct FullStageResult {
  TargetId id;
  std::string stage;
  uint64_t keys = 0;          // loaded, before all stages
  workload::Histogram ticks;  // of each operation
  uint64_t refused = 0;       // of them, for lack of room
  workload::Histogram reader_ticks;
  uint64_t live_keys = 0;  // at the end, like the following
  MemoryUse memory;

  static double Ns(const workload::Histogram& ticks, double fraction);
};

// One line, without the newline. A missing figure is 0.
std::string ToJson(const PhaseResult& result);
std::string ToJson(const RecoveryResult& result);
std::string ToJson(const WindowResult& result);
std::string ToJson(const FullStageResult& result);

}  // namespace lodgekv::bench
