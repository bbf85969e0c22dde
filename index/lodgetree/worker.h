// What one thread keeps between its operations, so that hot paths need neither shared state nor
// allocation. One thread's; the counters and what Check asks for may be read by others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/lodgetree/drain_plan.h"
#include "index/lodgetree/drain_state.h"
#include "index/lodgetree/partitioned_version_log.h"
#include "index/lodgetree/pending_op.h"
#include "index/lodgetree/spare_space.h"
#include "index/node/retired_records.h"
#include "index/node/thread_counts.h"

namespace lodgekv::lodgetree {

struct WorkerCounters {
  enum Name : unsigned {
    kFlushes,
    kFlushedLeaves,
    kFlushedPairs,
    kLeafSplits,
    kSecondCommits,
    kNodeSplits,
    kAddingSplits,
    kReducingSplits,
    kSuperseded,
    kLogReclaims,
    kMergedLeaves,
    kCount
  };
};

// Of a group that need not be atomic: indices of its operations, ascending.
template <class C>
struct Chunks {
  std::vector<uint32_t> chunk;   // that share the next fence
  std::vector<uint32_t> window;  // of which the chunks are taken
  std::vector<PendingOp<C>> pending;
};

// The old log that a thread is emptying, how many of its entries it has looked at, and what it has
// found to drain.
template <class C>
struct OldLogWork {
  // A pair that the log has, and that may still be buffered.
  struct OldPair {
    typename C::Key key;
    uint32_t log;
  };
  PartitionedVersionLog::OldLog log;
  unsigned entries = 0;
  std::vector<OldPair> pairs;
  std::vector<std::string> keys;  // of the pairs (codecs with records)
};

template <class C>
struct alignas(64) Worker {
  SpareSpace spares;
  Round<C> round;
  LeafWork merge;
  std::vector<uint64_t> unlinked;  // value words of pairs that the drains in hand remove
  RetiredRecords retired;
  std::vector<uint32_t> order;  // of a group, by key; of those that are to come
  DrainPlan plan;               // scratch
  Chunks<C> chunks;
  // Of entries that a drain has made superfluous, to be let go behind the next lock: a shared
  // counter right behind the drain's fence would wait for it, and all that follows.
  std::vector<uint32_t> drained_logs;
  OldLogWork<C> old_log;
  // Keys of nodes that may be merged: where they begin. Those whose locks were busy stay.
  std::vector<std::string> sparse_nodes;
  ThreadCounts<WorkerCounters::kCount> counters;

  void ReleaseDrainedLogs(PartitionedVersionLog& log) {
    for (const uint32_t drained : drained_logs) log.Release(drained);
    drained_logs.clear();
  }
  void RetireRecord(const pmem::RecordSlab& slab, uint64_t value_word) {
    if constexpr (C::kRecords) {
      if (C::IsRecord(value_word)) retired.Add(slab, C::RecordOf(value_word));
    }
  }
};

}  // namespace lodgekv::lodgetree
