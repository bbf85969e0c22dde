// Whether a target's answers were right: a figure of a target that lost keys is worth nothing.
#pragma once

#include "absl/status/status.h"
#include "bench/engine_bench/op_batch.h"
#include "bench/engine_bench/run_batch.h"
#include "bench/engine_bench/target.h"

namespace lodgekv::bench {

// DataLoss names the target, the workload, what was to come and what came. A target that discards
// is only asked for outcomes.
[[nodiscard]] absl::Status CheckTally(const Target& target, const OpBatch& batch,
                                      const Tally& tally);

}  // namespace lodgekv::bench
