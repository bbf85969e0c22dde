// A single write, durable when its leaf's lock is released (write_tree.h). Thread-safe.
#pragma once

#include <cstdint>

#include "index/node/search_form.h"
#include "index/node/write_tree.h"

namespace lodgekv {

template <class C, WriteTree<C> Tree>
class PointWrites {
 public:
  using Held = typename Tree::Held;

  explicit PointWrites(Tree& tree) : tree_(tree), stages_(tree.stages()) {}

  // In a full pool the write is retried once after space has been reclaimed. Static, so that a call
  // of it is a jump.
  static Outcome Write(Tree& tree, const WriteOp& op, WriteResult* result,
                       const WriteOptions& options);

  Outcome Evaluate(const Held& held, uint64_t now, PendingOp<C>* pending) const;
  // Applies it to a held leaf.
  Outcome Apply(Held& held, const typename C::Key& key, Pair pair, bool remove);

 private:
  template <class Form>
  Outcome WriteBy(const WriteOp& op, WriteResult* result, uint64_t now);
  [[gnu::noinline, gnu::cold]] static Outcome WriteAgain(Tree& tree, const WriteOp& op,
                                                         WriteResult* result, uint64_t now);
  template <class Form>
  Outcome WriteStaged(PendingOp<C>* pending, uint64_t now);

  Tree& tree_;
  OpStages<C>& stages_;
};

template <class C, WriteTree<C> Tree>
Outcome PointWrites<C, Tree>::Evaluate(const Held& held, uint64_t now,
                                       PendingOp<C>* pending) const {
  if (MetDamage(held)) [[unlikely]]
    return Outcome::kDataLoss;
  if (!held.found() || !pending->looks_at_pair()) return stages_.Evaluate(nullptr, now, pending);
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
Outcome PointWrites<C, Tree>::Write(Tree& tree, const WriteOp& op, WriteResult* result,
                                    const WriteOptions& options) {
  return RunBySearchForm(
      [](auto form, Tree* of, const WriteOp* its_op, WriteResult* its_result, uint64_t now) {
        using Form = decltype(form);
        const Outcome outcome = PointWrites(*of).template WriteBy<Form>(*its_op, its_result, now);
        if (outcome == Outcome::kPoolFull) [[unlikely]]
          return WriteAgain(*of, *its_op, its_result, now);
        return outcome;
      },
      &tree, &op, result, options.now_unix_ms);
}

template <class C, WriteTree<C> Tree>
Outcome PointWrites<C, Tree>::WriteAgain(Tree& tree, const WriteOp& op, WriteResult* result,
                                         uint64_t now) {
  if (!tree.ReclaimSpace()) return result->outcome;
  return PointWrites(tree).template WriteBy<SearchByPointer>(op, result, now);
}

template <class C, WriteTree<C> Tree>
template <class Form>
Outcome PointWrites<C, Tree>::WriteBy(const WriteOp& op, WriteResult* result, uint64_t now) {
  PendingOp<C> pending;
  Outcome outcome = stages_.Check(op);
  if (outcome == Outcome::kOk) [[likely]] {
    stages_.Begin(op, result, &pending);
    outcome = stages_.Stage(&pending);
  }
  if (outcome != Outcome::kOk) [[unlikely]] {
    *result = {outcome, false, 0};
    return outcome;
  }
  return result->outcome = WriteStaged<Form>(&pending, now);
}

template <class C, WriteTree<C> Tree>
template <class Form>
Outcome PointWrites<C, Tree>::WriteStaged(PendingOp<C>* pending, uint64_t now) {
  Held held = tree_.template Lock<Form>(pending->key, /*of_batch=*/false);
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
  if (!tree_.AfterWrite() && outcome == Outcome::kOk) [[unlikely]]
    return Outcome::kMediumFailed;
  return outcome;
}

}  // namespace lodgekv
