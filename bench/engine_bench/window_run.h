// A window that slides over the keys: new ones ascend and the oldest are deleted, as in a queue or
// a time series. The final size of the store, and the distance of a scan to its first key, should
// be those after the first window.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "bench/engine_bench/bench_options.h"
#include "bench/engine_bench/result.h"

namespace lodgekv::bench {

// `options.keys` are live, `options.ops` pass through. The pool's file is created and removed.
absl::StatusOr<WindowResult> MeasureWindow(const BenchOptions& options, const Subject& subject,
                                           const std::string& pool_path);

}  // namespace lodgekv::bench
