// The keys of a load as the source of a bulk load: in order, prepared a batch at a time. The
// preparation is not timed.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/engine_bench/key_space.h"
#include "bench/engine_bench/op_batch.h"
#include "bench/engine_bench/result.h"
#include "index/cost.h"
#include "index/engine_info.h"

namespace lodgekv::bench {

class BulkKeys {
 public:
  // The first `keys` keys of `distribution`, with values of `value_bytes`.
  BulkKeys(const KeyWriter& writer, KeyFormat format, uint32_t value_bytes,
           Distribution distribution, uint64_t keys);

  // Valid while this object exists; may be used once.
  BulkSource Source();
  // Records the time of the load since the first pair was requested.
  void Finish(PhaseResult* result) const;

 private:
  struct Clock {
    double wall = 0;
    double cpu = 0;  // of the calling thread

    static Clock Now();
    Clock operator-(const Clock& other) const { return {wall - other.wall, cpu - other.cpu}; }
  };

  bool Next(BulkPair* pair);
  void Prepare();

  const KeyWriter& writer_;
  const KeyFormat format_;
  const Distribution distribution_;
  std::vector<std::pair<uint64_t, uint64_t>> keys_;  // in order, with their indices
  size_t prepared_ = 0;                              // keys of all batches so far
  OpBatch batch_;
  size_t next_ = 0;  // of the batch
  char fixed_key_[8];
  std::string value_;
  bool begun_ = false;
  Clock begin_;
  Clock preparing_;  // total of the preparation
  Cost cost_before_;
};

}  // namespace lodgekv::bench
