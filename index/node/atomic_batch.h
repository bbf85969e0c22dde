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
#include <string_view>
#include <vector>

#include "index/node/group_writes.h"

namespace lodgekv {

template <class C, WriteTree<C> Tree>
class AtomicBatch {
 public:
  explicit AtomicBatch(Tree& tree) : tree_(tree), stages_(tree.stages()) {}

  Outcome Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                const WriteOptions& options);

 private:
  using Pending = PendingOp<C>;

  bool Prepare(std::span<const WriteOp> ops, std::span<WriteResult> results,
               std::span<Pending> batch);
  Outcome Abort(std::span<Pending> batch, std::span<WriteResult> results);
  Outcome Commit(std::span<Pending> batch, const WriteOptions& options);
  bool SetAside(std::span<const Pending> batch, BatchIntents::Intent* intent);
  bool Evaluate(std::span<Pending> batch, uint64_t now, std::vector<IntendedOp>* ops);

  Tree& tree_;
  OpStages<C>& stages_;
};

template <class C, WriteTree<C> Tree>
Outcome AtomicBatch<C, Tree>::Write(std::span<const WriteOp> ops, std::span<WriteResult> results,
                                    const WriteOptions& options) {
  for (WriteResult& result : results) result = {};
  std::vector<Pending> batch(ops.size());
  if (!Prepare(ops, results, batch)) return Abort(batch, results);
  std::vector<uint16_t> hashes;
  for (const Pending& pending : batch) hashes.push_back(pending.key.hash);
  Outcome outcome;
  {
    const KeyLocks::Holder holder(tree_.key_locks(), hashes);
    outcome = Commit(batch, options);
  }
  tree_.AfterWrite();
  if (outcome == Outcome::kAborted) return Abort(batch, results);
  if (outcome == Outcome::kOk && !tree_.medium().failed()) return outcome;
  if (outcome == Outcome::kOk) outcome = Outcome::kMediumFailed;
  for (Pending& pending : batch) {
    if (outcome == Outcome::kPoolFull) stages_.Discard(&pending);
    *pending.result = {outcome, false, 0};
  }
  return outcome;
}

// False: an operation has an outcome of its own.
template <class C, WriteTree<C> Tree>
bool AtomicBatch<C, Tree>::Prepare(std::span<const WriteOp> ops, std::span<WriteResult> results,
                                   std::span<Pending> batch) {
  const bool failed = tree_.medium().failed();
  if (failed || ops.size() > BatchIntents::kMostOps) {
    const Outcome outcome = failed ? Outcome::kMediumFailed : Outcome::kPoolFull;
    for (WriteResult& result : results) result.outcome = outcome;
    return false;
  }
  std::vector<std::string_view> keys;
  for (const WriteOp& op : ops) keys.push_back(op.key);
  std::sort(keys.begin(), keys.end());
  PointWrites<C, Tree> writes(tree_);
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto [from, to] = std::equal_range(keys.begin(), keys.end(), ops[i].key);
    Outcome outcome = CheckFormat(ops[i], stages_.codec());
    if (to - from > 1) outcome = Outcome::kInvalidArgument;
    if (outcome == Outcome::kOk) outcome = writes.Stage(ops[i], &results[i], &batch[i]);
    results[i].outcome = outcome;
    if (outcome != Outcome::kOk) return false;
  }
  return true;
}

// Applies nothing; operations without an outcome get kAborted.
template <class C, WriteTree<C> Tree>
Outcome AtomicBatch<C, Tree>::Abort(std::span<Pending> batch, std::span<WriteResult> results) {
  for (Pending& pending : batch) stages_.Discard(&pending);
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
Outcome AtomicBatch<C, Tree>::Commit(std::span<Pending> batch, const WriteOptions& options) {
  BatchIntents& intents = tree_.intents();
  BatchIntents::Intent intent;
  const bool room = SetAside(batch, &intent) || (tree_.ReclaimSpace() && SetAside(batch, &intent));
  std::vector<IntendedOp> ops;
  const bool all_hold = room && Evaluate(batch, options.now_unix_ms, &ops);
  Outcome outcome = !room ? Outcome::kPoolFull : all_hold ? Outcome::kOk : Outcome::kAborted;
  if (outcome == Outcome::kOk && (!ops.empty() || options.applied_index.has_value())) {
    intents.Commit(intent, ops, options.applied_index);
    outcome = GroupWrites<C, Tree>(tree_).ApplyIntended(ops);
    if (options.applied_index.has_value()) tree_.applied().Raise(*options.applied_index);
    intents.Retire(intent);
    tree_.CountBatch();
  } else {
    intents.Drop(intent);
  }
  tree_.FreeSpare();
  return outcome;
}

// Allocates the missing space for the operations and the intent. False: the pool is full.
template <class C, WriteTree<C> Tree>
bool AtomicBatch<C, Tree>::SetAside(std::span<const Pending> batch, BatchIntents::Intent* intent) {
  const auto puts = static_cast<size_t>(
      std::ranges::count_if(batch, [](const Pending& pending) { return !pending.remove(); }));
  const auto policy = puts > 0 ? pmem::ReservePolicy::kKeep : pmem::ReservePolicy::kUse;
  return tree_.SetAside(puts) &&
         (intent->body != 0 || tree_.intents().Allocate(batch.size(), policy, intent));
}

// The state that the operations find now is the state that they will be applied to: their keys are
// locked, and each leaf's lock is acquired once after that, so earlier writers of the keys have
// finished.
template <class C, WriteTree<C> Tree>
bool AtomicBatch<C, Tree>::Evaluate(std::span<Pending> batch, uint64_t now,
                                    std::vector<IntendedOp>* ops) {
  const PointWrites<C, Tree> writes(tree_);
  bool all_hold = true;
  for (Pending& pending : batch) {
    typename Tree::Held held = tree_.Lock(pending.key, /*of_batch=*/true);
    pending.result->outcome = writes.Evaluate(held, now, &pending);
    held.Unlock();
    all_hold &= pending.result->outcome == Outcome::kOk;
  }
  if (!all_hold) return false;
  for (Pending& pending : batch) {
    if (!pending.apply) continue;
    stages_.Finish(&pending);
    ops->push_back({pending.staged.pair, pending.remove()});
  }
  return true;
}

}  // namespace lodgekv
