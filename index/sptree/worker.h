// The state of each thread: keeps shared state out of the hot path.
//
// A Worker belongs to the thread of its slot (pmem/per_worker.h); other threads only sum its
// counters, or read it while nobody writes (Check).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/node/leaf_space.h"
#include "index/node/old_log_entries.h"
#include "index/node/retired_records.h"
#include "index/node/thread_counts.h"
#include "index/pmem/pool.h"
#include "index/sptree/buffer_pool.h"

namespace lodgekv::sptree {

struct WorkerCounters {
  enum Name : unsigned {
    kInserts,
    kUpdates,
    kDeletes,
    kLeafSplits,
    kLeafMerges,
    kSortedLeaves,
    kBatches,
    kGroups,
    kBuffered,
    kSuperseded,
    kHolding,
    kBufferFlushes,
    kHoldingFlushes,
    kPastBuffers,
    kStarvedFlushes,
    kLogReclaims,
    kCount
  };
};

struct alignas(64) Worker {
  // For an atomic batch, which must not run out of space.
  LeafSpace::Spare spare;
  std::vector<pmem::Offset> spare_fences;  // records for low fences, of spare_fence_bytes each
  uint64_t spare_fence_bytes = 0;
  RetiredRecords retired;
  std::vector<uint64_t> replaced;   // value words that a group will replace
  std::vector<std::string> sparse;  // keys of leaves that may be merged
  OldLogEntries old_entries;
  std::string old_key;  // of one of them
  BufferPool::FreeParts free_buffers;
  bool wants_buffer = false;  // their memory is at its limit
  unsigned unexamined = 0;    // entries of old logs that are due
  std::string reclaimed;      // a full pool: where the search for buffers that hold space goes on
  ThreadCounts<WorkerCounters::kCount> counters;
};

}  // namespace lodgekv::sptree
