// The state of each thread: keeps shared state out of the hot path.
//
// A Worker belongs to the thread of its slot (pmem/per_worker.h); other threads only sum its
// counters, or read it while nobody writes (Check).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/node/retired_records.h"
#include "index/node/thread_counts.h"
#include "index/pmem/pool.h"

namespace lodgekv::tlbtree {

struct WorkerCounters {
  enum Name : unsigned {
    kOneLineInserts,
    kTwoLineInserts,
    kMovedEntries,
    kLeafSplits,
    kLeafMerges,
    kSubIndexSplits,
    kSubIndexMerges,
    kHelped,
    kUpdates,
    kDeletes,
    kBatches,
    kGroups,
    kSidewaysSteps,
    kRebuilds,
    kCount
  };
};

struct alignas(64) Worker {
  // For an atomic batch, which must not run out of space. Unless the pool is tight some of it is
  // kept for the next batch; meanwhile other splits may take it.
  bool has_set_aside = false;  // a batch with puts is in progress
  std::vector<pmem::Offset> spare_leaves;
  std::vector<pmem::Offset> spare_lows;  // records for bounds, of spare_low_bytes each
  uint64_t spare_low_bytes = 0;
  RetiredRecords retired;
  std::vector<uint64_t> replaced;  // value words that a group will replace
  // Keys of leaves whose entry is missing above them, and of those that have become sparse.
  std::vector<std::string> unlisted;
  std::vector<std::string> sparse;
  bool stepped_aside = false;  // the top layer did not lead to a sub-index
  ThreadCounts<WorkerCounters::kCount> counters;
};

}  // namespace lodgekv::tlbtree
