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

namespace lodgekv::lbtree {

struct WorkerCounters {
  enum Name : unsigned {
    kOneLineInserts,
    kTwoLineInserts,
    kMovedEntries,
    kLeafSplits,
    kUpdates,
    kDeletes,
    kUnlinkedLeaves,
    kBatches,
    kGroups,
    kCount
  };
};

struct alignas(64) Worker {
  std::vector<pmem::Offset> spare_leaves;  // for an atomic batch, which must not run out of space
  RetiredRecords retired;
  std::vector<uint64_t> replaced;  // value words that a group will replace
  // Keys whose leaf is empty, or whose inner nodes are sparse, and were busy.
  std::vector<std::string> emptied;
  ThreadCounts<WorkerCounters::kCount> counters;
};

}  // namespace lodgekv::lbtree
