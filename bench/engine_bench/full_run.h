// A full pool: what puts, deletes and updates cost in a pool with room, and what they cost when it
// is full. A put that is refused should cost what a read does, and a delete and a put in turn what
// they cost with room; what the store takes in DRAM should stay.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/engine_bench/bench_options.h"
#include "bench/engine_bench/result.h"

namespace lodgekv::bench {

// `options.keys` are loaded and measured with room, `options.ops` operations a stage; then the pool
// is filled. The pool's file is made and removed.
absl::StatusOr<std::vector<FullStageResult>> MeasureFullPool(const BenchOptions& options,
                                                             const Subject& subject,
                                                             const std::string& pool_path);

}  // namespace lodgekv::bench
