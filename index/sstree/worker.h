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
#include "index/sstree/leaf.h"

namespace lodgekv::sstree {

struct WorkerCounters {
  enum Name : unsigned {
    kInserts,
    kHeadReplacements,
    kFilledHoles,
    kMovedEntries,
    kUpdates,
    kMovedItems,
    kReclaimedSubnodes,
    kLeafSplits,
    kAppendedLeaves,
    kDeletes,
    kDroppedLeaves,
    kBatches,
    kGroups,
    kCount
  };
};

struct alignas(64) Worker {
  LeafSpace::Spare spare;  // for an atomic batch, which must not run out of space
  // A subnode whose predecessor's next pointer was changed by a store that is flushed, not fenced:
  // it is freed after the next fence of that thread.
  struct CutOff {
    pmem::Offset subnode;
    const media::Subnode* before;
    uint64_t thread;
  };
  std::vector<CutOff> cut_off;
  RetiredRecords retired;
  std::vector<uint64_t> replaced;  // value words that a group will replace
  // Keys whose leaf is empty, or whose inner nodes are sparse, and were busy.
  std::vector<std::string> emptied;
  std::vector<Leaf*> removed;  // that no parent refers to any more; perhaps still locked
  ThreadCounts<WorkerCounters::kCount> counters;
};

}  // namespace lodgekv::sstree
