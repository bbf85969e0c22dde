// Runs a phase on all targets in turns.
//
// A phase is cut into chunks. In each chunk every variant, a number of threads and of operations in
// a call, draws operations of its own, and every target carries them out: the engines so, the
// baselines with one thread and one by one. So all targets hold the same keys at the end of each
// chunk, figures of one chunk were taken within a moment of each other, and a ratio is the median
// over the chunks. The order of turns alternates.
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
  // `subjects` are the engines; there may be no baselines. All outlive the runner.
  PhaseRunner(WorkerPool& workers, std::vector<Target*> subjects, std::vector<Target*> baselines,
              uint64_t seed)
      : workers_(workers),
        subjects_(std::move(subjects)),
        baselines_(std::move(baselines)),
        keys_(seed) {}

  // The subjects were bulk-loaded with the first `keys` keys of `distribution`; inserts them into
  // the baseline.
  [[nodiscard]] absl::Status AdoptLoaded(Distribution distribution, uint64_t keys);

  // One result for each subject and variant, then one for each baseline. Results of an earlier run
  // of the same phase are added to.
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
  // What the targets took for the operations of one variant, in one chunk.
  struct Turn {
    std::vector<Taken> subjects;
    std::vector<std::optional<Taken>> baselines;  // nothing: it had no turn
  };

  void Prepare(const PhasePlan& plan, uint64_t keys, std::vector<PhaseResult>* results) const;
  absl::Status RunChunk(const PhasePlan& plan, Pass pass, unsigned chunk,
                        std::vector<PhaseResult>* results);
  absl::StatusOr<Turn> TakeTurn(const PhasePlan& plan, Pass pass, size_t variant, bool backwards,
                                uint64_t ops, std::vector<PhaseResult>* results);
  absl::Status RunBaseline(size_t baseline, const PhasePlan& plan, Pass pass, size_t variant,
                           const Shares& shares, Turn* turn, std::vector<PhaseResult>* results);
  absl::StatusOr<Taken> RunTarget(Target& target, const PhasePlan& plan, const Variant& variant,
                                  const Shares& shares, Pass pass, PhaseResult* result);
  std::vector<OpBatch> MakeBatches(const Target& target, const PhasePlan& plan,
                                   const Variant& variant, const Shares& shares) const;
  absl::Status CheckScans(const Turn& turn) const;
  Shares Draw(const Phase& phase, uint64_t ops, unsigned threads);
  KeyRef DrawKey(const Phase& phase, size_t i);
  void RecordRatios(const PhasePlan& plan, const std::vector<Turn>& turns,
                    std::vector<PhaseResult>* results) const;
  void RecordBaselineRatios(const Taken& taken, const Turn& turn, PhaseResult* result) const;

  size_t ResultOf(const PhasePlan& plan, size_t subject, size_t variant) const {
    return subject * plan.variants.size() + variant;
  }

  WorkerPool& workers_;
  const std::vector<Target*> subjects_;
  const std::vector<Target*> baselines_;
  KeySpace keys_;
  uint8_t generation_ = 0;
};

}  // namespace lodgekv::bench
