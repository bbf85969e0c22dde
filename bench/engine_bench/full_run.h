// A full pool: the cost of puts, deletes and updates in a pool with room, and in a full one. A
// refused put should cost as much as a read; alternating deletes and puts as much as with room; the
// DRAM use should not change.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/engine_bench/bench_options.h"
#include "bench/engine_bench/result.h"

namespace lodgekv::bench {

// Loads `options.keys` and measures with room, `options.ops` operations per stage; then fills the
// pool. The pool's file is created and removed.
absl::StatusOr<std::vector<FullStageResult>> MeasureFullPool(const BenchOptions& options,
                                                             const Subject& subject,
                                                             const std::string& pool_path);

}  // namespace lodgekv::bench
