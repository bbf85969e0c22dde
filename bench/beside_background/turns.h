// Turns of inserts and reads by one thread, each turn told apart by whether the engine's background
// thread was at work: what that costs the others. A turn in which that changed counts for neither.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/engine_bench/engine_target.h"
#include "bench/engine_bench/key_space.h"

namespace lodgekv::bench {

// Sums over the turns of one kind.
struct TurnSums {
  uint64_t turns = 0;
  uint64_t inserts = 0;
  uint64_t reads = 0;
  double insert_seconds = 0;
  double read_seconds = 0;
  uint64_t most_lines = 0;  // of one insert
};

class Turns {
 public:
  // The target is empty, and outlives this.
  Turns(EngineTarget& target, uint64_t seed) : target_(target), keys_(seed) {}

  [[nodiscard]] absl::Status Load(uint64_t keys);
  // Inserts so many keys, and reads a few for each.
  [[nodiscard]] absl::Status Run(uint64_t inserts);

  const TurnSums& at_work() const { return at_work_; }
  const TurnSums& idle() const { return idle_; }

 private:
  static constexpr uint64_t kInserts = 64;  // of a turn
  static constexpr uint64_t kReads = 256;

  struct Done {
    double seconds = 0;
    uint64_t most_lines = 0;
  };
  absl::StatusOr<Done> Apply(Workload workload, uint64_t count);

  EngineTarget& target_;
  KeySpace keys_;
  std::vector<KeyRef> drawn_;
  TurnSums at_work_;
  TurnSums idle_;
};

}  // namespace lodgekv::bench
