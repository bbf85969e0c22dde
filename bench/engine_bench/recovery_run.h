// The time to open after a crash: another process loads the pool and is killed by SIGKILL, then
// this one opens it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "bench/engine_bench/bench_options.h"
#include "bench/engine_bench/result.h"

namespace lodgekv::bench {

// Every key is counted and a sample is read before a figure is reported. The pool's file is created
// and removed.
absl::StatusOr<RecoveryResult> MeasureRecovery(const BenchOptions& options, const Subject& subject,
                                               const std::string& pool_path, unsigned threads);

}  // namespace lodgekv::bench
