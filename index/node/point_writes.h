// A single write, durable when its leaf's lock is released (write_tree.h). Thread-safe.
#pragma once

#include <cstdint>

#include "index/node/write_tree.h"

namespace lodgekv {

template <class C, WriteTree<C> Tree>
class PointWrites {
 public:
  using Held = typename Tree::Held;

  explicit PointWrites(Tree& tree) : tree_(tree), stages_(tree.stages()) {}

  // In a full pool the write is retried once after space has been reclaimed.
  Outcome Write(const WriteOp& op, WriteResult* result, const WriteOptions& options);

  // Begins an operation, with its record. kOk or kPoolFull.
  Outcome Stage(const WriteOp& op, WriteResult* result, PendingOp<C>* pending);
  Outcome Evaluate(const Held& held, uint64_t now, PendingOp<C>* pending) const;
  // Applies it to a held leaf.
  Outcome Apply(Held& held, const typename C::Key& key, Pair pair, bool remove);

 private:
  Outcome WriteStaged(PendingOp<C>* pending, uint64_t now);

  Tree& tree_;
  OpStages<C>& stages_;
};

template <class C, WriteTree<C> Tree>
Outcome PointWrites<C, Tree>::Stage(const WriteOp& op, WriteResult* result, PendingOp<C>* pending) {
  stages_.Begin(op, result, pending);
  const Outcome outcome = stages_.Stage(pending);
  return outcome == Outcome::kPoolFull && tree_.ReclaimSpace() ? stages_.Stage(pending) : outcome;
}

template <class C, WriteTree<C> Tree>
Outcome PointWrites<C, Tree>::Evaluate(const Held& held, uint64_t now,
                                       PendingOp<C>* pending) const {
  if (!held.found()) return stages_.Evaluate(nullptr, now, pending);
  const Pair there = held.FoundPair();
  return stages_.Evaluate(&there, now, pending);
}

template <class C, WriteTree<C> Tree>
Outcome PointWrites<C, Tree>::Apply(Held& held, const typename C::Key& key, Pair pair,
                                    bool remove) {
  if (!remove) return tree_.Put(held, key, pair);
  if (held.found()) tree_.Remove(held, key);
  return Outcome::kOk;
}

template <class C, WriteTree<C> Tree>
Outcome PointWrites<C, Tree>::Write(const WriteOp& op, WriteResult* result,
                                    const WriteOptions& options) {
  Outcome outcome = stages_.Check(op);
  for (bool again = false; outcome == Outcome::kOk; again = true) {
    PendingOp<C> pending;
    outcome = Stage(op, result, &pending);
    if (outcome != Outcome::kOk) break;
    outcome = WriteStaged(&pending, options.now_unix_ms);
    if (outcome != Outcome::kPoolFull || again || !tree_.ReclaimSpace()) {
      return result->outcome = outcome;
    }
    outcome = Outcome::kOk;
  }
  *result = {outcome, false, 0};
  return outcome;
}

template <class C, WriteTree<C> Tree>
Outcome PointWrites<C, Tree>::WriteStaged(PendingOp<C>* pending, uint64_t now) {
  Held held = tree_.Lock(pending->key, /*of_batch=*/false);
  Outcome outcome = Evaluate(held, now, pending);
  bool linked = false;
  if (pending->apply) {
    stages_.Finish(pending);
    outcome = Apply(held, pending->key, pending->staged.pair, pending->remove());
    linked = outcome == Outcome::kOk;
  }
  held.Unlock();
  if (!linked) {
    stages_.Discard(pending);
    if (outcome != Outcome::kConditionFailed) pending->result->version = 0;
  }
  tree_.AfterWrite();
  return outcome == Outcome::kOk && tree_.medium().failed() ? Outcome::kMediumFailed : outcome;
}

}  // namespace lodgekv
