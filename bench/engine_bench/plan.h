// What a run does, phase by phase, in numbers: settled and checked before the first operation.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/engine_bench/bench_options.h"
#include "bench/engine_bench/tsc_clock.h"
#include "bench/engine_bench/workload.h"

namespace lodgekv::bench {

struct PhasePlan {
  Phase phase;
  uint64_t ops = 0;  // of the throughput pass, for each thread count
  uint64_t latency_ops = 0;
  std::vector<unsigned> threads;
  unsigned chunks = 0;
  OpEnd op_end = OpEnd::kDrained;
  bool reported = true;
};

struct Plan {
  std::vector<PhasePlan> phases;  // the load first; `recover` and `window` are not among them
  uint64_t capacity = 0;          // no key's index is as large
};

// FailedPrecondition when a phase would want keys that are not there then.
absl::StatusOr<Plan> MakePlan(const BenchOptions& options);

// Bytes of a pool in which the plan's keys fit, with room to spare.
// `bulk_load_fill` as in BenchOptions.
uint64_t PoolBytesFor(const Subject& subject, uint64_t capacity, unsigned bulk_load_fill);

}  // namespace lodgekv::bench
