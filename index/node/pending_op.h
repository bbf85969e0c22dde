// One client operation in progress, and the stages that are the same in every tree: whether it is
// valid, its record, its condition, its version.
//
// In this order: Check; Stage, before any lock is acquired; under the lock of the key's leaf
// Evaluate and, if the operation applies, Finish; then the tree commits the pair. Discard frees
// what was staged and not linked.
//
// OpStages is as thread-safe as its parts; a PendingOp belongs to one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "index/engine.h"
#include "index/node/codec.h"
#include "index/node/op_rules.h"
#include "index/node/record.h"
#include "index/node/staged_pair.h"
#include "index/node/stored_values.h"

namespace lodgekv {

template <class C>
struct PendingOp {
  const WriteOp* op;
  WriteResult* result;
  typename C::Key key;
  StagedPair<C> staged;
  bool apply = false;

  bool remove() const { return op->kind == WriteKind::kDelete; }
  // A put without a condition applies whatever the key's pair is.
  bool looks_at_pair() const { return remove() || op->condition != Condition::kNone; }
};

template <class C>
class OpStages {
 public:
  OpStages(pmem::Pool& pool, pmem::RecordSlab& slab, const C& codec, const StoredValues<C>& values)
      : pool_(pool), medium_(pool.medium()), slab_(slab), codec_(codec), values_(values) {}

  const C& codec() const { return codec_; }

  Outcome Check(const WriteOp& op) const {
    return medium_.failed() ? Outcome::kMediumFailed : CheckFormat(op, codec_);
  }
  // Its record needs a fence, and time, which no lock should be held for.
  bool IsLarge(const WriteOp& op) const;

  static void Begin(const WriteOp& op, WriteResult* result, PendingOp<C>* pending) {
    *result = {};
    pending->op = &op;
    pending->result = result;
    pending->key = C::MakeKey(op.key);
  }
  // kOk; or kPoolFull, then nothing was allocated.
  Outcome Stage(PendingOp<C>* pending) {
    if (pending->remove()) return Outcome::kOk;
    return StagePair(pool_, slab_, codec_, *pending->op, pending->key, &pending->staged);
  }
  // Decides whether the operation applies; for a delete, which pair is removed. `there`: the key's
  // pair, null if it has none.
  Outcome Evaluate(const Pair* there, uint64_t now, PendingOp<C>* pending) const;
  void Finish(PendingOp<C>* pending);
  void Discard(PendingOp<C>* pending) { DiscardStaged(slab_, &pending->staged); }

 private:
  pmem::Pool& pool_;
  const pmem::Medium& medium_;
  pmem::RecordSlab& slab_;
  const C& codec_;
  const StoredValues<C>& values_;
};

template <class C>
bool OpStages<C>::IsLarge(const WriteOp& op) const {
  if constexpr (C::kRecords) {
    return op.kind == WriteKind::kPut &&
           slab_.IsLarge(RecordBytes(op.key.size(), op.value.size(), op.expiry_unix_ms != 0));
  }
  return false;
}

template <class C>
Outcome OpStages<C>::Evaluate(const Pair* there, uint64_t now, PendingOp<C>* pending) const {
  pending->apply = true;
  if (!pending->looks_at_pair()) return Outcome::kOk;
  const WriteOp& op = *pending->op;
  const bool remove = pending->remove();
  CurrentPair current;
  if (there != nullptr) current = values_.Describe(there->value, now);
  pending->apply = false;
  if (!CheckCondition(op, current, pending->result)) return Outcome::kConditionFailed;
  if (remove && current.exists && !values_.IsSound(current.value_word)) return Outcome::kDataLoss;
  // An expired value is removed all the same.
  pending->apply = !remove || current.exists;
  if (remove) pending->staged.pair = {pending->key.word, current.value_word};
  return Outcome::kOk;
}

// The record's version is drawn under the leaf's lock: so the order of versions is that of writes.
template <class C>
void OpStages<C>::Finish(PendingOp<C>* pending) {
  if constexpr (C::kRecords) {
    if (pending->remove() || codec_.inline_pairs()) {
      if (pending->staged.record.offset == 0) return;
    }
    const uint64_t version = pool_.TakeSequence(1);
    if (pending->staged.record.offset != 0) FinishRecord(pool_, pending->staged.record, version);
    if (!codec_.inline_pairs()) pending->result->version = version;
  }
}

}  // namespace lodgekv
