// A lone operation: what comes before its lock.
#include "index/lodgetree/group_write.h"
#include "index/lodgetree/lodgetree.h"
#include "index/lodgetree/log_reclaim.h"
#include "index/lodgetree/lone_write.h"
#include "index/lodgetree/node_merge.h"
#include "index/lodgetree/space_reclaim.h"
#include "index/node/op_rules.h"
#include "index/node/optimistic_section.h"
#include "index/node/search_form.h"

namespace lodgekv::lodgetree {

template <class C>
Outcome LodgeTree<C>::WriteOne(const WriteOp& op, WriteResult* result,
                               const WriteOptions& options) {
  return RunBySearchForm(
      [](auto form, LodgeTree* tree, const WriteOp* its_op, WriteResult* its_result,
         const WriteOptions* its_options) {
        return tree->WriteOneBy<decltype(form)>(*its_op, its_result, *its_options);
      },
      this, &op, result, &options);
}

// Finds the node, and writes the pair if that is all there is to decide.
template <class C>
template <class Form>
Outcome LodgeTree<C>::WriteOneBy(const WriteOp& op, WriteResult* result,
                                 const WriteOptions& options) {
  const Outcome format = CheckFormat(op, parts_.codec);
  if (format != Outcome::kOk) [[unlikely]] {
    *result = {format, false, 0};
    return format;
  }
  const Key key = C::MakeKey(op.key);
  SeenNode<C> seen;
  seen.node = parts_.tree.template DescendForWrite<Form>(key, &seen.snapshot);
  const bool done =
      LoneWrite<C>::MayServe(parts_, op, options) &&
      LoneWrite<C>(parts_, op, key, seen).template TryToWrite<Form>(options.now_unix_ms, result);
  const Outcome outcome = done ? result->outcome : WriteAsGroup(op, key, seen, result, options);
  if (parts_.log.owed() != 0) [[unlikely]]
    PayLogs(1, outcome);
  return outcome;
}

// A group of one operation.
template <class C>
Outcome LodgeTree<C>::WriteAsGroup(const WriteOp& op, const Key& key, SeenNode<C> seen,
                                   WriteResult* result, const WriteOptions& options) {
  FetchCurrent(op, key, seen.node);
  return SpaceReclaimer<C>(parts_, parts_.CurrentWorker()).TryToFit([&] {
    PendingOp<C> pending;
    pending.Begin(op, key, result);
    const Outcome outcome = Stage(&pending);
    return outcome == Outcome::kOk ? WriteGroup({&pending, 1}, options, seen) : outcome;
  });
}

// A refused operation has appended nothing.
template <class C>
void LodgeTree<C>::PayLogs(size_t ops, Outcome outcome) {
  if (outcome == Outcome::kPoolFull || parts_.medium.failed()) return;
  Worker<C>& worker = parts_.CurrentWorker();
  LogReclaimer<C>(parts_, worker).EmptyOldLogs(ops);
  FinishWrite(parts_, worker);
}

// Fetches what the operation has to find in a leaf before it can be decided, if anything.
template <class C>
void LodgeTree<C>::FetchCurrent(const WriteOp& op, const Key& key, const Node* node) const {
  if (op.kind != WriteKind::kDelete && op.condition == Condition::kNone) return;
  node->FetchMirrors();
  const OptimisticSection section;
  parts_.access.FetchSlots(node, node->Search(key).leaf, key);
}

template <class C>
Outcome LodgeTree<C>::WriteGroup(std::span<PendingOp<C>> group, const WriteOptions& options,
                                 SeenNode<C> seen) {
  return GroupWrite<C>(parts_, parts_.CurrentWorker(), group, options).Run(seen);
}

// Stages the pair of a put; the result has the outcome, too.
template <class C>
Outcome LodgeTree<C>::Stage(PendingOp<C>* pending) {
  const WriteOp& op = *pending->op;
  if (op.kind != WriteKind::kPut) return Outcome::kOk;
  pending->result->outcome =
      StagePair(parts_.pool, parts_.slab, parts_.codec, op, pending->key, &pending->staged);
  if (C::kRecords && pending->result->outcome == Outcome::kOk) {
    parts_.longest_key.Note(op.key.size());
  }
  return pending->result->outcome;
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
