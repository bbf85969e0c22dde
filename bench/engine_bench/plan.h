// The phases of a run in numbers: determined and checked before the first operation.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/engine_bench/bench_options.h"
#include "bench/engine_bench/tsc_clock.h"
#include "bench/engine_bench/workload.h"

namespace lodgekv::bench {

// What a phase is measured with, in turn.
struct Variant {
  unsigned threads = 1;
  Grouping group;

  bool operator==(const Variant&) const = default;
};

struct PhasePlan {
  Phase phase;
  uint64_t ops = 0;  // of the throughput pass, for each variant
  uint64_t latency_ops = 0;
  std::vector<Variant> variants;
  unsigned chunks = 0;
  OpEnd op_end = OpEnd::kDrained;
  bool reported = true;
};

struct Plan {
  std::vector<PhasePlan> phases;  // the load first; without `recover` and `window`
  uint64_t capacity = 0;          // greater than every key's index
};

// FailedPrecondition if a phase needs keys that do not exist at that point.
absl::StatusOr<Plan> MakePlan(const BenchOptions& options);

// The size of a pool that holds the plan's keys, with a margin. `bulk_load_fill` as in
// BenchOptions.
uint64_t PoolBytesFor(const Subject& subject, uint64_t capacity, unsigned bulk_load_fill);

}  // namespace lodgekv::bench
