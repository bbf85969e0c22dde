// A complete run of the benchmark.
#pragma once

#include <cstdio>
#include <vector>

#include "absl/status/status.h"
#include "bench/engine_bench/bench_options.h"
#include "bench/engine_bench/result.h"

namespace lodgekv::bench {

struct BenchResults {
  std::vector<PhaseResult> phases;
  std::vector<RecoveryResult> recoveries;
  std::vector<WindowResult> windows;
  std::vector<FullStageResult> full_stages;
};

// Prints environment and options, then measures. `json`, if not null, gets a line for each result
// as it becomes known.
[[nodiscard]] absl::Status RunBench(const BenchOptions& options, std::FILE* json,
                                    BenchResults* results);

}  // namespace lodgekv::bench
