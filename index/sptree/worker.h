// The state of each thread: keeps shared state out of the hot path.
//
// A Worker belongs to the thread of its slot (pmem/per_worker.h); other threads only sum its
// counters, or read it while nobody writes (Check).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/node/leaf_space.h"
#include "index/node/retired_records.h"
#include "index/node/thread_counts.h"
#include "index/pmem/pool.h"

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
  ThreadCounts<WorkerCounters::kCount> counters;
};

}  // namespace lodgekv::sptree
