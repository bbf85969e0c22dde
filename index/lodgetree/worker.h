// The state that one thread keeps between its operations, so that hot paths need neither shared
// state nor allocation. Other threads may read only the counters and what Check needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "index/lodgetree/drain_plan.h"
#include "index/lodgetree/drain_state.h"
#include "index/lodgetree/key_order.h"
#include "index/lodgetree/open_commits.h"
#include "index/lodgetree/pending_op.h"
#include "index/lodgetree/spare_space.h"
#include "index/node/append_log.h"
#include "index/node/old_log_entries.h"
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
    kNodesClosed,
    kCount
  };
};

// For a group of writes.
template <class C>
struct Chunks {
  std::vector<typename KeyOrder<C>::Place> window;  // operations still to be taken
  std::vector<PendingOp<C>> pending;                // those that share the next fence, by key
};

// The old logs that a thread is emptying, and the pairs found to drain.
template <class C>
struct OldLogWork {
  // A pair of the log that may still be buffered.
  struct OldPair {
    typename C::Key key;
    uint32_t log;
  };
  OldLogEntries entries;
  std::vector<OldPair> pairs;
  std::vector<std::string> keys;  // of the pairs (codecs with records)
};

template <class C>
struct alignas(64) Worker {
  SpareSpace spares;
  Round<C> round;
  LeafWork merge;
  std::vector<uint64_t> unlinked;  // value words of pairs that the current drains remove
  OpenCommits open_commits;
  RetiredRecords retired;
  std::vector<uint32_t> todo;  // operations of a group still to do, ascending
  DrainPlan plan;              // scratch
  Chunks<C> chunks;
  // Logs of entries that closed commits have made obsolete. Their counters are decremented after
  // the next lock: a shared counter right after a fence would wait for it, and so would all that
  // follows.
  std::vector<uint32_t> drained_logs;
  OldLogWork<C> old_log;
  // First keys of nodes that may be merged. Those whose locks were busy stay.
  std::vector<std::string> sparse_nodes;
  ThreadCounts<WorkerCounters::kCount> counters;

  void ReleaseDrainedLogs(AppendLog& log) {
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
