// Atomic groups: an intent on the medium first (node/batch_intent.h, whose crash table holds here),
// then every operation, in the passes of a group (group_commit.cc). Keys are locked above the
// leaves meanwhile (node/key_locks.h), so other writers wait and readers do not.
//
// What the operations may need is at hand before the intent is committed: records, and a leaf for
// every put. So nothing can fail behind it.
#include <algorithm>

#include "index/lbtree/group.h"
#include "index/node/op_rules.h"

namespace lodgekv::lbtree {

template <class C>
Outcome LbTree<C>::WriteAtomic(std::span<const WriteOp> ops, std::span<WriteResult> results,
                               const WriteOptions& options) {
  for (WriteResult& result : results) result = {};
  std::vector<PendingOp> batch(ops.size());
  if (!PrepareBatch(ops, results, batch)) return AbortBatch(batch, results);
  std::vector<uint16_t> hashes;
  for (const PendingOp& pending : batch) hashes.push_back(pending.key.hash);
  Outcome outcome;
  {
    const KeyLocks::Holder holder(key_locks_, hashes);
    outcome = CommitBatch(batch, options);
  }
  FinishWrite(workers_.Current());
  if (outcome == Outcome::kAborted) return AbortBatch(batch, results);
  if (outcome == Outcome::kOk && !medium_.failed()) return outcome;
  if (outcome == Outcome::kOk) outcome = Outcome::kMediumFailed;
  for (PendingOp& pending : batch) {
    if (outcome == Outcome::kPoolFull) DiscardStaged(slab_, &pending.staged);
    *pending.result = {outcome, false, 0};
  }
  return outcome;
}

// False: an operation has an outcome of its own.
template <class C>
bool LbTree<C>::PrepareBatch(std::span<const WriteOp> ops, std::span<WriteResult> results,
                             std::span<PendingOp> batch) {
  if (medium_.failed() || ops.size() > BatchIntents::kMostOps) {
    const Outcome outcome = medium_.failed() ? Outcome::kMediumFailed : Outcome::kPoolFull;
    for (WriteResult& result : results) result.outcome = outcome;
    return false;
  }
  std::vector<std::string_view> keys;
  for (const WriteOp& op : ops) keys.push_back(op.key);
  std::sort(keys.begin(), keys.end());
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto [from, to] = std::equal_range(keys.begin(), keys.end(), ops[i].key);
    Outcome outcome = CheckFormat(ops[i], codec_);
    if (to - from > 1) outcome = Outcome::kInvalidArgument;
    if (outcome == Outcome::kOk) outcome = Stage(ops[i], &results[i], &batch[i]);
    results[i].outcome = outcome;
    if (outcome != Outcome::kOk) return false;
  }
  return true;
}

// Nothing is applied; operations without an outcome of their own get kAborted.
template <class C>
Outcome LbTree<C>::AbortBatch(std::span<PendingOp> batch, std::span<WriteResult> results) {
  for (PendingOp& pending : batch) DiscardStaged(slab_, &pending.staged);
  Outcome first = Outcome::kOk;
  for (WriteResult& result : results) {
    if (result.outcome == Outcome::kOk) result = {Outcome::kAborted, false, 0};
    if (first == Outcome::kOk) first = result.outcome;
  }
  return first;
}

// The keys are locked. kAborted: an operation has an outcome of its own. kPoolFull: nothing was
// done.
template <class C>
Outcome LbTree<C>::CommitBatch(std::span<PendingOp> batch, const WriteOptions& options) {
  Worker& worker = workers_.Current();
  BatchIntents::Intent intent;
  const auto puts = static_cast<size_t>(std::ranges::count_if(
      batch, [](const PendingOp& pending) { return pending.op->kind == WriteKind::kPut; }));
  const auto reserve = puts > 0 ? pmem::Reserve::kKeep : pmem::Reserve::kUse;
  const auto enough = [&] {
    return EnsureSpareLeaves(worker, puts) &&
           (intent.body != 0 || intents_.Reserve(batch.size(), reserve, &intent));
  };
  const bool room = enough() || (ReclaimSpace() && enough());
  std::vector<IntendedOp> ops;
  const bool all_hold = room && EvaluateBatch(batch, options.now_unix_ms, &ops);
  Outcome outcome = !room ? Outcome::kPoolFull : all_hold ? Outcome::kOk : Outcome::kAborted;
  if (outcome == Outcome::kOk && (!ops.empty() || options.applied_index.has_value())) {
    intents_.Commit(intent, ops, options.applied_index);
    outcome = ApplyIntended(ops);
    if (options.applied_index.has_value()) StoreAppliedIndex(*options.applied_index);
    intents_.Retire(intent);
    worker.counters.Add(WorkerCounters::kBatches);
  } else {
    intents_.Drop(intent);
  }
  TrimSpareLeaves(worker);
  return outcome;
}

// What the operations find now is what they will find: their keys are locked, and each leaf's lock
// has been held since.
template <class C>
bool LbTree<C>::EvaluateBatch(std::span<PendingOp> batch, uint64_t now,
                              std::vector<IntendedOp>* ops) {
  bool all_hold = true;
  for (PendingOp& pending : batch) {
    const Locked locked = LockLeaf(pending.key, /*of_batch=*/true);
    pending.result->outcome = Evaluate(locked, pending, now);
    locked.lock->Unlock();
    all_hold &= pending.result->outcome == Outcome::kOk;
  }
  if (!all_hold) return false;
  for (PendingOp& pending : batch) {
    if (!pending.apply) continue;
    FinishStaged(pending);
    ops->push_back({pending.staged.pair, pending.op->kind == WriteKind::kDelete});
  }
  return true;
}

// Also what recovery does with an intent that it finds: what has been done is not done again.
template <class C>
Outcome LbTree<C>::ApplyIntended(std::span<const IntendedOp> ops) {
  Outcome first = Outcome::kOk;
  for (size_t begin = 0; begin < ops.size(); begin += kMostMembers) {
    const auto some = ops.subspan(begin, std::min(kMostMembers, ops.size() - begin));
    WriteInPasses(some.size(), /*of_batch=*/true,
                  {.hash_of =
                       [&](size_t i) {
                         char scratch[8];
                         return KeyOf(some[i], scratch).hash;
                       },
                   .join = [&](Group& group, size_t i) { return JoinIntended(group, some[i]); },
                   .write_alone =
                       [&](size_t i) {
                         const Outcome outcome = ApplyAlone(some[i]);
                         if (first == Outcome::kOk) first = outcome;
                       },
                   .fail = [](size_t) {}});
  }
  return first;
}

template <class C>
Outcome LbTree<C>::ApplyAlone(const IntendedOp& op) {
  char scratch[8];
  const Key key = KeyOf(op, scratch);
  Locked locked = LockLeaf(key, /*of_batch=*/true);
  const Outcome outcome = Apply(workers_.Current(), locked, key, op.pair, op.remove);
  locked.lock->Unlock();
  return outcome;
}

template <class C>
typename LbTree<C>::Key LbTree<C>::KeyOf(const IntendedOp& op, char (&scratch)[8]) const {
  if constexpr (C::kRecords) {
    return C::MakeKey(codec_.KeyText(op.pair, scratch));
  } else {
    return C::KeyOfWord(op.pair.key);
  }
}

template <class C>
bool LbTree<C>::EnsureSpareLeaves(Worker& worker, size_t count) {
  while (worker.spare_leaves.size() < count) {
    const pmem::Offset leaf = leaves_.Allocate(pmem::Reserve::kKeep);
    if (leaf == 0) return false;
    worker.spare_leaves.push_back(leaf);
  }
  return true;
}

template <class C>
void LbTree<C>::TrimSpareLeaves(Worker& worker) {
  for (; !worker.spare_leaves.empty(); worker.spare_leaves.pop_back()) {
    leaves_.Free(worker.spare_leaves.back());
  }
}

template <class C>
void LbTree<C>::StoreAppliedIndex(uint64_t index) {
  const std::lock_guard lock(applied_mutex_);
  if (index > pool_.applied_index()) pool_.PersistAppliedIndex(index);
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
