// A window that slides over the keys: they come in ascending order and the oldest go, as in a queue
// or a time series. What a store takes in the end, and how far a scan goes to its first key, should
// be what they were after the first window.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "bench/engine_bench/bench_options.h"
#include "bench/engine_bench/result.h"

namespace lodgekv::bench {

// `options.keys` are alive, `options.ops` pass. The pool's file is made and removed.
absl::StatusOr<WindowResult> MeasureWindow(const BenchOptions& options, const Subject& subject,
                                           const std::string& pool_path);

}  // namespace lodgekv::bench
