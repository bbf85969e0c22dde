#include "index/lodgetree/group_write.h"

#include "index/lodgetree/node_merge.h"
#include "index/lodgetree/space_reclaim.h"
#include "index/node/op_rules.h"

namespace lodgekv::lodgetree {

template <class C>
CurrentPair GroupWrite<C>::FindCurrent(const Op& pending) const {
  const uint64_t now = options_.now_unix_ms;
  const Node* node = pending.node;
  const int at = parts_.access.BufferedIndex(node, pending.key, pending.hits);
  if (at >= 0) {
    const auto i = static_cast<unsigned>(at);
    return node->IsTombstone(i) ? CurrentPair{} : parts_.values.Describe(node->values[i], now);
  }
  const int slot = parts_.access.FindInLeaf(node, pending.leaf, pending.key);
  if (slot < 0) return {};
  const Pair pair = SlotPair(parts_.access.LeafAt(node, pending.leaf), static_cast<unsigned>(slot));
  return parts_.values.Describe(pair.value, now);
}

// Decides whether the operation applies; for a delete, also the content of its tombstone.
template <class C>
Outcome GroupWrite<C>::Evaluate(Op& pending) const {
  const WriteOp& op = *pending.op;
  pending.tombstone = op.kind == WriteKind::kDelete;
  pending.apply = true;
  if (!NeedsCurrent(pending)) return Outcome::kOk;

  const CurrentPair current = FindCurrent(pending);
  if (!CheckCondition(op, current, pending.result)) {
    pending.apply = false;
    return Outcome::kConditionFailed;
  }
  if (pending.tombstone) {
    if (current.exists && !parts_.values.IsSound(current.value_word)) {
      // Recovery could not determine the content of its tombstone.
      pending.apply = false;
      return Outcome::kDataLoss;
    }
    // Deleting an absent key needs no tombstone; an expired value is removed all the same. With
    // records the tombstone names its victim, which has the key.
    pending.apply = current.exists;
    pending.staged.pair = {pending.key.word, C::kRecords ? current.value_word : 0};
  }
  return Outcome::kOk;
}

template <class C>
bool GroupWrite<C>::EvaluateAll() {
  bool all_hold = true;
  for (Op& pending : group_) {
    pending.result->outcome = Evaluate(pending);
    if (group_.size() == 1 && pending.apply && !AdmitOne(pending)) {
      pending.apply = false;
      *pending.result = {Outcome::kPoolFull, false, 0};
    }
    all_hold &= pending.result->outcome == Outcome::kOk;
  }
  return all_hold;
}

// One after the other: each drain has its own fences.
template <class C>
uint32_t GroupWrite<C>::AppendAndApplyEach() {
  FinishEntries();
  const uint32_t applied_log = AppendToLog();
  for (Op& pending : group_) {
    if (pending.apply) nodes_.Apply(pending);
  }
  return applied_log;
}

// Returns the log that holds the applied index, if one is given.
template <class C>
uint32_t GroupWrite<C>::AppendAndApply() {
  if constexpr (C::kRecords) parts_.horizon.BeginTaking();
  const uint32_t applied_log = SharesFences() ? WriteInRounds() : AppendAndApplyEach();
  if (options_.applied_index.has_value()) nodes_.EnsureFenced();
  if constexpr (C::kRecords) parts_.horizon.EndTaking();
  return applied_log;
}

// Fails the group; nothing of it was done.
template <class C>
Outcome GroupWrite<C>::FailAll(Outcome outcome) {
  for (Op& pending : group_) {
    DiscardStaged(parts_.slab, &pending.staged);
    *pending.result = {outcome, false, 0};
  }
  worker_.spares.Trim(parts_.spare_source);
  return outcome;
}

// False: the pool is full, and no lock is held.
template <class C>
bool GroupWrite<C>::LockAndAdmit(SeenNode<C> seen) {
  nodes_.kept_leaves = group_.size() > 1 ? group_.size() : 0;
  if (group_.size() == 1) {
    Op& pending = group_[0];
    nodes_.Lock(pending.key, seen);
    pending.node = nodes_.held.front();
    pending.leaf = static_cast<uint8_t>(nodes_.position.leaf);
    pending.hits = nodes_.position.hits;
    return true;  // EvaluateAll admits it
  }
  SpaceReclaimer<C> space(parts_, worker_);
  LockMany();
  for (unsigned tries = 0; !AdmitGroup(); ++tries) {
    nodes_.held.UnlockAll();
    if (tries == SpaceReclaimer<C>::kMostReclaims || !space.Reclaim()) return false;
    LockMany();
  }
  return true;
}

template <class C>
Outcome GroupWrite<C>::Run(SeenNode<C> seen) {
  if (parts_.medium.failed()) return FailAll(Outcome::kMediumFailed);
  const bool has_room = group_.size() == 1 && parts_.log.OpenRoom() > ExtraEntries();
  if (!has_room && !MakeRoom()) return FailAll(Outcome::kPoolFull);
  if (!LockAndAdmit(seen)) return FailAll(Outcome::kPoolFull);
  worker_.ReleaseDrainedLogs(parts_.log);
  const bool all_hold = EvaluateAll();
  const bool appends = all_hold || !options_.atomic;
  const uint32_t applied_log = appends ? AppendAndApply() : AppendLog::kNoLog;
  if (appends) DrainEmptied();
  nodes_.held.UnlockAll();
  if (applied_log != AppendLog::kNoLog) {
    parts_.applied.Store(*options_.applied_index, applied_log);
  }
  FinishWrite(parts_, worker_);
  Outcome first = Outcome::kOk;
  for (Op& pending : group_) {
    if (!pending.apply || (options_.atomic && !all_hold)) {
      DiscardStaged(parts_.slab, &pending.staged);
    }
    if (parts_.medium.failed()) *pending.result = {Outcome::kMediumFailed, false, 0};
    if (first == Outcome::kOk) first = pending.result->outcome;
  }
  return first;
}

template class GroupWrite<Fixed64Codec>;
template class GroupWrite<BytesCodec>;

}  // namespace lodgekv::lodgetree
