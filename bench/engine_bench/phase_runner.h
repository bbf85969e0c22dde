// Runs a phase on all targets in turns.
//
// A phase is divided into chunks. In each chunk every thread count draws its own operations, and
// every target executes them: the engines with that many threads, the baseline btree_map with one.
// So all targets hold the same keys at the end of each chunk, figures of one chunk are measured
// close together in time, and a ratio is the median over the chunks. The order of turns alternates.
//
// Two passes: the first times whole chunks only; the second each operation. Every answer is
// checked.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/engine_bench/key_space.h"
#include "bench/engine_bench/plan.h"
#include "bench/engine_bench/result.h"
#include "bench/engine_bench/target.h"
#include "bench/engine_bench/worker_pool.h"

namespace lodgekv::bench {

class PhaseRunner {
 public:
  // `subjects` are the engines; `btree` may be null. All must outlive the runner.
  PhaseRunner(WorkerPool& workers, std::vector<Target*> subjects, Target* btree, uint64_t seed)
      : workers_(workers), subjects_(std::move(subjects)), btree_(btree), keys_(seed) {}

  // The subjects were bulk-loaded with the first `keys` keys of `distribution`; inserts them into
  // the baseline.
  [[nodiscard]] absl::Status AdoptLoaded(Distribution distribution, uint64_t keys);

  // One result for each subject and thread count, then btree_map's. Added to results of an earlier
  // run of the same phase.
  [[nodiscard]] absl::Status Run(const PhasePlan& plan, uint64_t keys,
                                 std::vector<PhaseResult>* results);

 private:
  enum class Pass : uint8_t { kThroughput, kLatency };
  using Shares = std::vector<std::vector<KeyRef>>;  // by thread

  struct Taken {
    double seconds = 0;
    double cpu_seconds = 0;
    uint64_t items = 0;  // scanned
  };
  // The cost of one thread count's operations on the targets, in one chunk.
  struct Turn {
    std::vector<Taken> subjects;
    std::optional<Taken> btree;  // none: btree_map had no turn
  };

  void Prepare(const PhasePlan& plan, uint64_t keys, std::vector<PhaseResult>* results) const;
  absl::Status RunChunk(const PhasePlan& plan, Pass pass, unsigned chunk,
                        std::vector<PhaseResult>* results);
  absl::StatusOr<Turn> TakeTurn(const PhasePlan& plan, Pass pass, size_t variant, bool backwards,
                                uint64_t ops, std::vector<PhaseResult>* results);
  absl::StatusOr<Taken> RunTarget(Target& target, const PhasePlan& plan, const Shares& shares,
                                  unsigned threads, Pass pass, PhaseResult* result);
  absl::Status CheckScans(const Turn& turn) const;
  Shares Draw(const Phase& phase, uint64_t ops, unsigned threads);
  KeyRef DrawKey(const Phase& phase, size_t i);
  void RecordRatios(const PhasePlan& plan, const std::vector<Turn>& turns,
                    std::vector<PhaseResult>* results) const;

  size_t ResultOf(const PhasePlan& plan, size_t subject, size_t variant) const {
    return subject * plan.threads.size() + variant;
  }

  WorkerPool& workers_;
  const std::vector<Target*> subjects_;
  Target* const btree_;
  KeySpace keys_;
  uint8_t generation_ = 0;
};

}  // namespace lodgekv::bench
