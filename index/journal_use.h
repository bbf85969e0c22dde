// Use and counters of the journal of a pool on an ordinary file (pmem/internal/journal.h).
#pragma once

#include <cstdint>

namespace lodgekv {

// A snapshot. Counters start when the pool is opened.
struct JournalUse {
  uint64_t size_bytes = 0;          // capacity of its segments
  uint64_t used_bytes = 0;          // by groups that a replay would need
  uint64_t syncs = 0;               // groups written; each is durable before the next begins
  uint64_t fences = 0;              // that waited for a group
  uint64_t written_bytes = 0;       // to the journal
  uint64_t checkpoints = 0;         // completed
  uint64_t checkpoint_ns = 0;       // total time of checkpoints
  uint64_t written_back_bytes = 0;  // pages of the pool, by checkpoints
  uint64_t lag_ns = 0;  // how long the oldest full segment has waited; 0: no segment is full
  uint64_t waits = 0;   // writers that waited because every segment was full
  uint64_t wait_ns = 0;
  uint64_t pool_syncs = 0;  // fences of so many lines that the pool itself was synced instead
};

}  // namespace lodgekv
