// Write of one operation, durable when its leaf's lock is let go. Several are in group_commit.cc,
// atomic ones in atomic_batch.cc.
//
// Update of a value in its slot (LB+-Tree has no updates; papers-reviewed B5):
//  step                                          after a crash           recovery
//  1  the new record, if any; fence              the old value           the mark frees the record
//  2  the slot's value word; fence               the old one or the new  nothing
#include "index/lbtree/lbtree.h"
#include "index/node/op_rules.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

template <class C>
Outcome LbTree<C>::Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                         const WriteOptions& options) {
  const bool alone = ops.size() == 1 && !options.applied_index.has_value();
  if (options.atomic && !alone) return WriteAtomic(ops, results, options);
  return ops.size() == 1 ? WriteOne(ops[0], &results[0], options)
                         : WriteGroup(ops, results, options);
}

template <class C>
Outcome LbTree<C>::Stage(const WriteOp& op, WriteResult* result, PendingOp* pending) {
  *result = {};
  pending->op = &op;
  pending->result = result;
  pending->key = C::MakeKey(op.key);
  if (op.kind == WriteKind::kDelete) return Outcome::kOk;
  Outcome outcome = StagePair(pool_, slab_, codec_, op, pending->key, &pending->staged);
  if (outcome == Outcome::kPoolFull && ReclaimSpace()) {
    outcome = StagePair(pool_, slab_, codec_, op, pending->key, &pending->staged);
  }
  return outcome;
}

template <class C>
Outcome LbTree<C>::WriteOne(const WriteOp& op, WriteResult* result, const WriteOptions& options) {
  Outcome outcome = medium_.failed() ? Outcome::kMediumFailed : CheckFormat(op, codec_);
  for (bool again = false; outcome == Outcome::kOk; again = true) {
    PendingOp pending;
    outcome = Stage(op, result, &pending);
    if (outcome != Outcome::kOk) break;
    outcome = WriteStaged(pending, options.now_unix_ms);
    if (outcome != Outcome::kPoolFull || again || !ReclaimSpace()) {
      return result->outcome = outcome;
    }
    outcome = Outcome::kOk;
  }
  *result = {outcome, false, 0};
  return outcome;
}

template <class C>
Outcome LbTree<C>::WriteStaged(PendingOp& pending, uint64_t now) {
  Worker& worker = workers_.Current();
  Locked locked = LockLeaf(pending.key, /*of_batch=*/false);
  Outcome outcome = Evaluate(locked, pending, now);
  bool linked = false;
  if (pending.apply) {
    FinishStaged(pending);
    const bool remove = pending.op->kind == WriteKind::kDelete;
    outcome = Apply(worker, locked, pending.key, pending.staged.pair, remove);
    linked = outcome == Outcome::kOk;
  }
  locked.lock->Unlock();
  if (!linked) {
    DiscardStaged(slab_, &pending.staged);
    pending.result->version = outcome == Outcome::kConditionFailed ? pending.result->version : 0;
  }
  FinishWrite(worker);
  return outcome == Outcome::kOk && medium_.failed() ? Outcome::kMediumFailed : outcome;
}

// The lock proves that the leaf is the key's: it could be taken only if nothing was published in
// the leaf since its parent led there.
template <class C>
typename LbTree<C>::Locked LbTree<C>::LockLeaf(const Key& key, bool of_batch) const {
  for (Backoff backoff;; backoff.Pause()) {
    uint64_t snapshot;
    media::Block* leaf = tree_.DescendForWrite(key, &snapshot);
    VersionLock& lock = locks_.Of(leaf);
    if (!lock.TryUpgrade(snapshot)) continue;
    const bool waits = !of_batch && key_locks_.IsTaken(key.hash);
    if (!waits || medium_.Canary("lbtree.write.batches_ignored")) [[likely]]
      return {leaf, &lock, FindPlace(leaf, key)};
    lock.Unlock();
    key_locks_.AwaitFree(key.hash);
  }
}

// Decides whether the operation applies; for a delete, which pair goes.
template <class C>
Outcome LbTree<C>::Evaluate(const Locked& locked, PendingOp& pending, uint64_t now) const {
  const WriteOp& op = *pending.op;
  const bool remove = op.kind == WriteKind::kDelete;
  pending.apply = true;
  if (!remove && op.condition == Condition::kNone) return Outcome::kOk;
  const Place place = locked.place;
  CurrentPair current;
  if (place.found()) {
    const Pair pair = SlotPair(locked.leaf[place.block], static_cast<unsigned>(place.slot));
    current = values_.Describe(pair.value, now);
  }
  pending.apply = false;
  if (!CheckCondition(op, current, pending.result)) return Outcome::kConditionFailed;
  if (remove && current.exists && !values_.IsSound(current.value_word)) return Outcome::kDataLoss;
  // What has expired is removed all the same.
  pending.apply = !remove || current.exists;
  if (remove) pending.staged.pair = {pending.key.word, current.value_word};
  return Outcome::kOk;
}

// The record's version is taken under the leaf's lock: so the order of versions is that of writes.
template <class C>
void LbTree<C>::FinishStaged(PendingOp& pending) {
  if constexpr (C::kRecords) {
    if (pending.op->kind == WriteKind::kDelete || codec_.inline_pairs()) {
      if (pending.staged.record.offset == 0) return;
    }
    const uint64_t version = pool_.TakeSequence(1);
    if (pending.staged.record.offset != 0) FinishRecord(pool_, pending.staged.record, version);
    if (!codec_.inline_pairs()) pending.result->version = version;
  }
}

// The leaf is locked; its lock may cover two leaves afterwards.
template <class C>
Outcome LbTree<C>::Apply(Worker& worker, Locked& locked, const Key& key, Pair pair, bool remove) {
  if (remove) {
    if (locked.place.found()) Remove(worker, locked, key);
    return Outcome::kOk;
  }
  if (locked.place.found()) {
    Update(worker, locked, pair);
    return Outcome::kOk;
  }
  if (Insert(worker, locked, pair)) return Outcome::kOk;
  return Split(worker, locked, key, pair);
}

template <class C>
void LbTree<C>::Update(Worker& worker, const Locked& locked, Pair pair) {
  media::Slot& slot = locked.leaf[locked.place.block].slots[locked.place.slot];
  const uint64_t old_value = slot.value.LoadRelaxed();
  if (old_value == pair.value && C::kRecords) return;  // a batch that is done again
  FenceRecord(pair);
  BeginCommit(locked, slot.value);
  medium_.Store(slot.value, pair.value);
  medium_.FlushLine(&slot);
  LODGEKV_CRASH_POINT(medium_, "lbtree.update.1");
  medium_.Fence();
  BeginPublish(locked);
  EndPublish(locked);
  LODGEKV_CRASH_POINT(medium_, "lbtree.update.2");
  if (!medium_.Canary("lbtree.update.record_stays")) RetireRecord(worker, old_value);
  worker.counters.Add(WorkerCounters::kUpdates);
}

template <class C>
void LbTree<C>::FenceRecord(Pair pair) {
  if constexpr (C::kRecords) {
    if (C::IsRecord(pair.value)) {
      LODGEKV_CRASH_POINT(medium_, "lbtree.record.1");
      medium_.Fence();
    }
  }
}

// --- after ---

template <class C>
void LbTree<C>::RetireRecord(Worker& worker, uint64_t value_word) {
  if constexpr (C::kRecords) {
    // After a failed sync what took its place may not be durable.
    if (C::IsRecord(value_word) && !medium_.failed())
      worker.retired.Add(slab_, C::RecordOf(value_word));
  }
}

template <class C>
void LbTree<C>::FinishWrite(Worker& worker) {
  // What a failed sync was to make durable may still lead to them: a batch's root.
  if (medium_.failed()) return;
  // Under a tracer space is used again as soon as it may be.
  if (worker.retired.full() || medium_.tracer() != nullptr) worker.retired.HandTo(reclaimer_);
  if (!worker.emptied.empty()) [[unlikely]]
    UnlinkEmptied(worker);
}

// When an allocation has failed. True: it is worth another try, what was about to be given back has
// been.
template <class C>
bool LbTree<C>::ReclaimSpace() {
  if (medium_.failed()) return false;
  return workers_.Current().retired.Drain(reclaimer_);
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
