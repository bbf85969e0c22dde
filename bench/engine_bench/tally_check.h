// Checks a target's answers: a figure of a target that lost keys is worthless.
#pragma once

#include "absl/status/status.h"
#include "bench/engine_bench/op_batch.h"
#include "bench/engine_bench/run_batch.h"
#include "bench/engine_bench/target.h"

namespace lodgekv::bench {

// DataLoss names the target, the workload, the expected and the actual result. For a target that
// discards, only outcomes are checked.
[[nodiscard]] absl::Status CheckTally(const Target& target, const OpBatch& batch,
                                      const Tally& tally);

}  // namespace lodgekv::bench
