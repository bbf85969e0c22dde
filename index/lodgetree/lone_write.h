// A lone write on which nothing is to be decided: it has no condition, its key is not buffered, and
// log and pool have room. It does what a GroupWrite would do with it, on a shorter way.
//
// The search comes first: its cache misses overlap with the fence of the previous operation, as
// long as the stores in between fit into the processor's store buffer. The lock proves what was
// seen before it.
//
// One thread, one operation.
#pragma once

#include <cstdint>

#include "index/engine.h"
#include "index/lodgetree/commit_closer.h"
#include "index/lodgetree/node_writer.h"
#include "index/lodgetree/tree_parts.h"
#include "index/node/log_fence.h"
#include "index/node/op_rules.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::lodgetree {

template <class C>
class LoneWrite {
 public:
  using Key = typename C::Key;
  using Node = LastLevelNode<C>;

  // Whether such a write may be one.
  static bool MayServe(const TreeParts<C>& parts, const WriteOp& op, const WriteOptions& options) {
    if (op.condition != Condition::kNone || options.applied_index.has_value()) return false;
    if (!parts.parameters.surrogate_buffer || parts.log.OpenRoom() == 0) return false;
    return !parts.medium.failed() && !parts.pool.tight();
  }

  LoneWrite(TreeParts<C>& parts, const WriteOp& op, const Key& key, SeenNode<C> seen)
      : parts_(parts),
        worker_(parts.CurrentWorker()),
        op_(op),
        key_(key),
        node_(seen.node),
        snapshot_(seen.snapshot) {}

  // False: nothing was done. `Form`: node/search_form.h.
  template <class Form>
  bool TryToWrite(uint64_t now, WriteResult* result) {
    const bool deletes = op_.kind == WriteKind::kDelete;
    if (deletes) node_->FetchMirrors();
    {
      const OptimisticSection section;
      const auto position = node_->template Search<Form>(key_);
      if (position.hits != 0) return false;
      leaf_ = position.leaf;
      drains_ = parts_.planner.NeedsDrain(node_, leaf_);
      if (drains_) PlanDrain();
    }
    return deletes ? Delete(now, result) : Put(result);
  }

 private:
  // Of a delete. False: whether the leaf has the key is to be seen when the tombstone is durable;
  // it is set, or the tombstone dropped.
  struct Tombstone {
    bool has_victim;
  };
  struct Logged {
    uint64_t sequence;
    uint32_t log;
  };

  void PlanDrain();
  bool Lock(pmem::ReservePolicy policy);

  bool Put(WriteResult* result);
  // These return true if there was nothing to delete, too.
  bool Delete(uint64_t now, WriteResult* result);
  bool DeleteRecord(uint64_t now, WriteResult* result);
  bool FindThenDelete(WriteResult* result);
  bool LogThenDelete(WriteResult* result);
  bool MayEmptyLeaf() const;

  // Apply logs the pair, makes that durable, and buffers it in the node, whose lock the caller
  // holds and which is released. Returns the pair's number.
  uint64_t Apply(StagedPair<C>* staged, Tombstone* tombstone) {
    return drains_ || empties_ ? LogAndDrain(staged, tombstone) : LogAndBuffer(staged, tombstone);
  }
  uint64_t LogAndBuffer(StagedPair<C>* staged, Tombstone* tombstone);
  uint64_t LogAndDrain(StagedPair<C>* staged, Tombstone* tombstone);
  Logged LogPair(StagedPair<C>* staged, const Tombstone* tombstone);
  void Buffer(Node* node, unsigned leaf, Pair pair, Tombstone* tombstone, uint32_t log);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
  const WriteOp& op_;
  const Key& key_;
  // Where the pair belongs, found before the lock.
  Node* const node_;
  const uint64_t snapshot_;
  unsigned leaf_ = 0;
  bool drains_ = false;   // by the worker's plan: there is no room for the pair
  bool empties_ = false;  // the leaf, perhaps: then it is drained too
};

// A short put is compiled with the search, for each form of it: the rest is in lone_write.cc.

template <class C>
bool LoneWrite<C>::Put(WriteResult* result) {
  StagedPair<C> staged;
  if constexpr (C::kRecords) {
    if (StagePair(parts_.pool, parts_.slab, parts_.codec, op_, key_, &staged) != Outcome::kOk)
      return false;
    parts_.longest_key.Note(op_.key.size());
  }
  if (!Lock(pmem::ReservePolicy::kKeep)) {
    DiscardStaged(parts_.slab, &staged);
    return false;
  }
  // Not before the lock: measured, that makes inserts of such pairs a tenth slower.
  if constexpr (!C::kRecords) staged.pair = {key_.word, KeyWord(op_.value, 0)};
  const uint64_t version = Apply(&staged, nullptr);
  *result = {};
  if (parts_.medium.failed()) {
    result->outcome = Outcome::kMediumFailed;
  } else if constexpr (C::kRecords) {
    if (!parts_.codec.inline_pairs()) result->version = version;
  }
  return true;
}

// Locks the node as it was seen, if there is a leaf for what the plan may split.
template <class C>
bool LoneWrite<C>::Lock(pmem::ReservePolicy policy) {
  if (!node_->lock.TryUpgrade(snapshot_)) return false;
  if (!drains_ || worker_.plan.splits == 0) return true;
  if (worker_.spares.Ensure(parts_.spare_source, 1, policy)) return true;
  node_->lock.Unlock();
  return false;
}

template <class C>
uint64_t LoneWrite<C>::LogAndBuffer(StagedPair<C>* staged, Tombstone* tombstone) {
  const Logged logged = LogPair(staged, tombstone);
  FenceLog(parts_.medium);
  CommitCloser<C>(parts_, worker_).AfterFence();
  if constexpr (C::kRecords) parts_.horizon.EndTaking();
  Buffer(node_, leaf_, staged->pair, tombstone, logged.log);
  node_->lock.Unlock();
  return logged.sequence;
}

// Numbers the pair and logs it; not fenced.
template <class C>
auto LoneWrite<C>::LogPair(StagedPair<C>* staged, const Tombstone* tombstone) -> Logged {
  worker_.ReleaseDrainedLogs(parts_.log);
  if constexpr (C::kRecords) parts_.horizon.BeginTaking();
  const uint64_t sequence = parts_.pool.TakeSequence(1);
  if constexpr (C::kRecords) {
    if (staged->record.offset != 0) FinishRecord(parts_.pool, staged->record, sequence);
  }
  const LogOp op = tombstone == nullptr ? LogOp::kPut : LogOp::kDelete;
  const uint32_t log = parts_.log.Append(staged->pair, sequence, op, 0, staged->record.crc);
  EndAppend(parts_.medium);
  return {sequence, log};
}

// Buffers what was logged, unless it is a tombstone that has no victim. `leaf` is the key's.
template <class C>
void LoneWrite<C>::Buffer(Node* node, unsigned leaf, Pair pair, Tombstone* tombstone,
                          uint32_t log) {
  if (tombstone != nullptr && !tombstone->has_victim) {
    tombstone->has_victim = parts_.access.FindInLeaf(node, leaf, key_) >= 0;
    if (!tombstone->has_victim) return parts_.log.Release(log);
  }
  node->InsertBuffered(leaf, key_, pair, log, tombstone != nullptr);
  if (C::kRecords || tombstone != nullptr) parts_.holders.Note(node);
}

}  // namespace lodgekv::lodgetree
