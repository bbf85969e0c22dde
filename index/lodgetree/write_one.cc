// A lone operation: what comes before its lock.
#include "index/lodgetree/group_write.h"
#include "index/lodgetree/lodgetree.h"
#include "index/lodgetree/lone_write.h"
#include "index/lodgetree/space_reclaim.h"
#include "index/node/op_rules.h"
#include "index/node/optimistic_section.h"
#include "index/node/search_form.h"

namespace lodgekv::lodgetree {

// Finds the node, and writes the pair if that is all there is to decide: then `result` is set, and
// what is returned is empty.
template <class C>
template <class Form>
SeenNode<C> LodgeTree<C>::Begin(const WriteOp& op, const Key& key, const WriteOptions& options,
                                WriteResult* result) {
  SeenNode<C> seen;
  seen.node = parts_.tree.template DescendForWrite<Form>(key, &seen.snapshot);
  if (!LoneWrite<C>::MayServe(parts_, op, options)) return seen;
  const bool done =
      LoneWrite<C>(parts_, op, key, seen).template TryToWrite<Form>(options.now_unix_ms, result);
  return done ? SeenNode<C>{} : seen;
}

template <class C>
Outcome LodgeTree<C>::WriteOne(const WriteOp& op, WriteResult* result,
                               const WriteOptions& options) {
  const Outcome format = CheckFormat(op, parts_.codec);
  if (format != Outcome::kOk) {
    *result = {format, false, 0};
    return format;
  }
  const Key key = C::MakeKey(op.key);
  const SeenNode<C> seen = RunBySearchForm(
      [](auto form, LodgeTree* tree, const WriteOp* its_op, const Key* its_key,
         const WriteOptions* its_options, WriteResult* its_result) {
        return tree->Begin<decltype(form)>(*its_op, *its_key, *its_options, its_result);
      },
      this, &op, &key, &options, result);
  if (seen.node == nullptr) return result->outcome;
  FetchCurrent(op, key, seen.node);
  return SpaceReclaimer<C>(parts_, parts_.CurrentWorker()).TryToFit([&] {
    PendingOp<C> pending;
    pending.Begin(op, key, result);
    const Outcome outcome = Stage(&pending);
    return outcome == Outcome::kOk ? WriteGroup({&pending, 1}, options, seen) : outcome;
  });
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
  if (C::kRecords) parts_.longest_key.Note(op.key.size());
  return pending->result->outcome =
             StagePair(parts_.pool, parts_.slab, parts_.codec, op, pending->key, &pending->staged);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
