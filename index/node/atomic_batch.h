// Atomic batches: first an intent on the medium (node/batch_intent.h and its crash table), then
// every operation, in the passes of a group (group_writes.h). Meanwhile the keys are locked above
// the leaves (node/key_locks.h), so other writers wait and readers do not.
//
// INVARIANT: what the operations may need is allocated before the intent is committed: records, and
// what the tree sets aside for each put. So nothing can fail afterwards.
//
// Thread-safe.
#pragma once

#include <algorithm>
#include <span>

#include "absl/container/inlined_vector.h"
#include "index/node/group_writes.h"
#include "index/node/seen_keys.h"

namespace lodgekv {

template <class C, WriteTree<C> Tree>
class AtomicBatch {
 public:
  explicit AtomicBatch(Tree& tree) : tree_(tree), stages_(tree.stages()) {}

  Outcome Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                const WriteOptions& options);

 private:
  using Pending = PendingOp<C>;
  using Sought = typename GroupWrites<C, Tree>::Sought;
  static constexpr size_t kUsual = 128;  // operations; a larger batch allocates
  struct Batch {
    absl::InlinedVector<Pending, kUsual> all;
    // Of all operations; once they are evaluated, of those that apply.
    absl::InlinedVector<Sought, kUsual> sought;
    absl::InlinedVector<IntendedOp, kUsual> ops;
  };

  // Of a tree that may find the way to a key damaged: what Seek has found may say so.
  static bool MayMeetDamage([[maybe_unused]] const typename Tree::Seen& seen) {
    if constexpr (requires(const typename Tree::Held& held) { held.damaged(); }) {
      return seen.leaf == nullptr;
    }
    return false;
  }
  Outcome WritePrepared(Batch& batch, const WriteOptions& options);
  bool Prepare(std::span<const WriteOp> ops, std::span<WriteResult> results, Batch& batch);
  Outcome Stage(Pending* pending);
  void Seek(std::span<const WriteOp> ops, Batch& batch);
  Outcome Abort(Batch& batch, std::span<WriteResult> results);
  Outcome Commit(Batch& batch, const WriteOptions& options);
  static LongPuts LongPutsOf(const Batch& batch);
  bool SetAside(const Batch& batch, BatchIntents::Intent* intent);
  bool Evaluate(Batch& batch, uint64_t now);
  void Intend(Batch& batch);

  Tree& tree_;
  OpStages<C>& stages_;
};

template <class C, WriteTree<C> Tree>
Outcome AtomicBatch<C, Tree>::Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                                    const WriteOptions& options) {
  for (WriteResult& result : results) result = {};
  Batch batch;
  if (!Prepare(ops, results, batch)) return Abort(batch, results);
  Outcome outcome = WritePrepared(batch, options);
  if (outcome == Outcome::kAborted) return Abort(batch, results);
  if (outcome == Outcome::kOk && !tree_.medium().failed()) return outcome;
  if (outcome == Outcome::kOk) outcome = Outcome::kMediumFailed;
  for (Pending& pending : batch.all) {
    if (outcome == Outcome::kPoolFull) stages_.Discard(&pending);
    *pending.result = {outcome, false, 0};
  }
  return outcome;
}

template <class C, WriteTree<C> Tree>
Outcome AtomicBatch<C, Tree>::WritePrepared(Batch& batch, const WriteOptions& options) {
  absl::InlinedVector<uint16_t, kUsual> hashes;
  for (const Pending& pending : batch.all) hashes.push_back(pending.key.hash);
  Outcome outcome;
  {
    const KeyLocks::Holder holder(tree_.key_locks(), hashes);
    outcome = Commit(batch, options);
  }
  (void)tree_.AfterWrite();
  return outcome;
}

// False: an operation has an outcome of its own.
template <class C, WriteTree<C> Tree>
bool AtomicBatch<C, Tree>::Prepare(std::span<const WriteOp> ops, std::span<WriteResult> results,
                                   Batch& batch) {
  const bool failed = tree_.medium().failed();
  if (failed || ops.size() > BatchIntents::kMostOps) {
    const Outcome outcome = failed ? Outcome::kMediumFailed : Outcome::kPoolFull;
    for (WriteResult& result : results) result.outcome = outcome;
    return false;
  }
  Seek(ops, batch);
  const size_t repeated = FirstRepeated(
      ops.size(), [&](size_t i) { return batch.sought[i].key.hash; },
      [&](size_t i) { return ops[i].key; });
  for (size_t i = 0; i < ops.size(); ++i) {
    Pending& pending = batch.all[i];
    pending.op = &ops[i];
    pending.result = &results[i];
    pending.key = batch.sought[i].key;
    Outcome outcome = CheckFormat(ops[i], stages_.codec());
    if (i == repeated) outcome = Outcome::kInvalidArgument;
    if (outcome == Outcome::kOk) outcome = Stage(&pending);
    results[i].outcome = outcome;
    if (outcome != Outcome::kOk) return false;
  }
  return true;
}

// The lines of all leaves are fetched while the operations are checked and staged.
template <class C, WriteTree<C> Tree>
void AtomicBatch<C, Tree>::Seek(std::span<const WriteOp> ops, Batch& batch) {
  batch.all.resize(ops.size());
  batch.sought.reserve(ops.size());
  SeekAll<C>(tree_, ops, batch.sought);
}

template <class C, WriteTree<C> Tree>
Outcome AtomicBatch<C, Tree>::Stage(Pending* pending) {
  const Outcome outcome = stages_.Stage(pending);
  return outcome == Outcome::kPoolFull && tree_.ReclaimSpace() ? stages_.Stage(pending) : outcome;
}

// Applies nothing; operations without an outcome get kAborted.
template <class C, WriteTree<C> Tree>
Outcome AtomicBatch<C, Tree>::Abort(Batch& batch, std::span<WriteResult> results) {
  for (Pending& pending : batch.all) stages_.Discard(&pending);
  Outcome first = Outcome::kOk;
  for (WriteResult& result : results) {
    if (result.outcome == Outcome::kOk) result = {Outcome::kAborted, false, 0};
    if (first == Outcome::kOk) first = result.outcome;
  }
  return first;
}

// The keys are locked. kAborted: an operation has an outcome of its own. kPoolFull: nothing was
// done.
template <class C, WriteTree<C> Tree>
Outcome AtomicBatch<C, Tree>::Commit(Batch& batch, const WriteOptions& options) {
  BatchIntents& intents = tree_.intents();
  BatchIntents::Intent intent;
  const bool room = SetAside(batch, &intent) || (tree_.ReclaimSpace() && SetAside(batch, &intent));
  const bool all_hold = room && Evaluate(batch, options.now_unix_ms);
  Outcome outcome = !room ? Outcome::kPoolFull : all_hold ? Outcome::kOk : Outcome::kAborted;
  if (all_hold) Intend(batch);
  if (outcome == Outcome::kOk && (!batch.ops.empty() || options.applied_index.has_value())) {
    intents.Commit(intent, batch.ops, options.applied_index);
    outcome = GroupWrites<C, Tree>(tree_).ApplyIntended(batch.ops, batch.sought);
    if (options.applied_index.has_value()) tree_.applied().Raise(*options.applied_index);
    intents.Retire(intent);
    tree_.CountBatch();
  } else {
    intents.Drop(intent);
  }
  tree_.FreeSpare();
  return outcome;
}

template <class C, WriteTree<C> Tree>
LongPuts AtomicBatch<C, Tree>::LongPutsOf(const Batch& batch) {
  LongPuts puts;
  for (const Pending& pending : batch.all) {
    if (pending.remove() || pending.op->key.size() < sizeof(uint64_t)) continue;
    ++puts.count;
    puts.longest = std::max(puts.longest, pending.op->key.size());
  }
  return puts;
}

// Allocates the missing space for the operations and the intent. False: the pool is full.
template <class C, WriteTree<C> Tree>
bool AtomicBatch<C, Tree>::SetAside(const Batch& batch, BatchIntents::Intent* intent) {
  const auto puts = static_cast<size_t>(
      std::ranges::count_if(batch.all, [](const Pending& pending) { return !pending.remove(); }));
  const auto set_aside = [&] {
    if constexpr (requires { tree_.SetAside(puts, LongPuts{}); }) {
      return tree_.SetAside(puts, LongPutsOf(batch));
    } else {
      return tree_.SetAside(puts);
    }
  };
  const auto policy = puts > 0 ? pmem::ReservePolicy::kKeep : pmem::ReservePolicy::kUse;
  return set_aside() &&
         (intent->body != 0 || tree_.intents().Allocate(batch.all.size(), policy, intent));
}

// The state that the operations find now is the state that they will be applied to: their keys are
// locked, and each leaf's lock is acquired once after that, so earlier writers of the keys have
// finished. A put without a condition needs no more than that.
template <class C, WriteTree<C> Tree>
bool AtomicBatch<C, Tree>::Evaluate(Batch& batch, uint64_t now) {
  const PointWrites<C, Tree> writes(tree_);
  bool all_hold = true;
  for (size_t i = 0; i < batch.all.size(); ++i) {
    Pending& pending = batch.all[i];
    if (!pending.remove() && pending.op->condition == Condition::kNone &&
        !MayMeetDamage(batch.sought[i].seen)) {
      tree_.AwaitWriters(pending.key, batch.sought[i].seen);
      pending.result->outcome = stages_.Evaluate(nullptr, now, &pending);
    } else {
      typename Tree::Held held = tree_.Lock(pending.key, /*of_batch=*/true, batch.sought[i].seen);
      pending.result->outcome = writes.Evaluate(held, now, &pending);
      held.Unlock();
    }
    all_hold &= pending.result->outcome == Outcome::kOk;
  }
  return all_hold;
}

// All conditions hold.
template <class C, WriteTree<C> Tree>
void AtomicBatch<C, Tree>::Intend(Batch& batch) {
  for (size_t i = 0; i < batch.all.size(); ++i) {
    Pending& pending = batch.all[i];
    if (!pending.apply) continue;
    stages_.Finish(&pending);
    batch.sought[batch.ops.size()] = batch.sought[i];
    batch.ops.push_back({pending.staged.pair, pending.remove()});
  }
  batch.sought.resize(batch.ops.size());
}

}  // namespace lodgekv
