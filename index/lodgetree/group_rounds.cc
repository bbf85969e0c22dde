// The drains of a group of writes share their fences.
//
// A group is written in rounds, nearly always one. Before each, its plan says which leaves are
// drained (group_plan.cc). Then all log entries are written and the leaves of
// all nodes staged, and one fence covers both. The commit words of all leaves share the next fence,
// and second commits, if any, the two after it (the steps: README, The drain).
//
// The group's own operations for such a leaf are drained too: they need not fit into the buffer, so
// ascending keys go to their leaf at once, which splits into as many as they fill. The rest goes to
// the buffers when everything is durable.
//
// The watermark of a round is the number before that of the node's first operation that waits for a
// later one, or else the last number taken. All operations of the node up to it are in the round,
// since numbers were taken under the lock, and those of a drained leaf are drained.
#include <algorithm>
#include <bit>

#include "index/lodgetree/group_write.h"

namespace lodgekv::lodgetree {

// In a pool without a leaf for each operation, they are admitted and drained one by one.
template <class C>
bool GroupWrite<C>::SharesFences() const {
  return group_.size() > 1 && worker_.spares.leaves() > group_.size() &&
         parts_.parameters.surrogate_buffer && !parts_.parameters.split_alone;
}

// What the round reads and writes besides the nodes and the leaves found with them, while the log
// is written.
template <class C>
void GroupWrite<C>::FetchRound() const {
  const Round<C>& round = worker_.round;
  worker_.spares.Prefetch(parts_.pool, round.planned_leaves);
  if constexpr (C::kRecords) {
    for (const Turn& turn : round.turns) {
      parts_.access.FetchDrained(turn.node, turn.leaves);
      for (size_t i = turn.first_op; i < turn.first_op + turn.op_count; ++i) {
        const Op& pending = group_[worker_.todo[i]];
        if ((turn.leaves >> pending.leaf & 1) == 0) continue;
        const auto may_be = [&](Pair other) { return parts_.codec.MayMatch(pending.key, other); };
        parts_.access.FetchRecords(turn.node, pending.leaf, pending.key.hash, may_be);
      }
    }
  }
}

template <class C>
void GroupWrite<C>::StageRound() {
  const uint64_t own = parts_.medium.Canary("lodgetree.flush.own_number") ? 1 : 0;
  const bool of_all = parts_.medium.Canary("lodgetree.group.watermark_of_all");
  DrainRound<C> round(parts_, worker_);
  bool drains = false;
  for (Turn& turn : worker_.round.turns) {
    if (turn.leaves == 0) continue;
    const bool all = turn.waits == Turn::kNone || of_all;
    const uint64_t next = all ? parts_.pool.PeekSequence() : group_[turn.waits].sequence;
    turn.watermark = next - 1 + own;
    round.StageTurn(turn, group_);
    drains = true;
  }
  if (!drains) return nodes_.EnsureFenced();
  round.FenceStaged();
  nodes_.fenced = true;
  round.CommitAndPublish();
}

template <class C>
void GroupWrite<C>::Buffer(Node* node, const Op& pending) {
  if (pending.buffered >= 0) {
    nodes_.Supersede(node, static_cast<unsigned>(pending.buffered), pending);
  } else {
    nodes_.Insert(node, pending.leaf, pending);
  }
}

template <class C>
void GroupWrite<C>::SplitIfFull(Node* node, const Key& key) {
  if (node->index_count >= parts_.parameters.MaxIndex()) [[unlikely]]
    nodes_.Split(node, key);
}

// The rest goes to the buffer, which has room now: a drain has moved what was found there. Leaves
// merge only then: the watermark of a drained leaf would cover operations that wait for another.
template <class C>
void GroupWrite<C>::PublishTurn(const Turn& turn) {
  const bool drains = turn.leaves != 0;
  const bool merge_first = drains && parts_.medium.Canary("lodgetree.group.merge_first");
  if (merge_first) DrainRound<C>(parts_, worker_).FinishTurn(turn);
  for (size_t i = turn.first_op; i < turn.first_op + turn.op_count; ++i) {
    Op& pending = group_[worker_.todo[i]];
    if ((turn.leaves >> pending.leaf & 1) != 0) continue;
    // The other leaves are where they were unless one has split, and no other pair has the key.
    if (merge_first || turn.splits || (drains && pending.buffered >= 0)) {
      pending.node = nullptr;
      Locate(turn.node, pending);
    }
    Buffer(turn.node, pending);
  }
  if (drains && !merge_first) DrainRound<C>(parts_, worker_).FinishTurn(turn);
  SplitIfFull(turn.node, group_[worker_.todo[turn.first_op]].key);
}

// Returns the log that holds the applied index, if one is given.
template <class C>
uint32_t GroupWrite<C>::WriteInRounds() {
  auto& todo = worker_.todo;
  todo.clear();
  for (uint32_t i = 0; i < group_.size(); ++i) {
    if (group_[i].apply) todo.push_back(i);
  }
  FinishEntries();
  if (todo.empty()) return AppendToLog();
  PlanRound();
  FetchRound();
  const uint32_t applied_log = AppendToLog();
  for (;;) {
    StageRound();
    for (const uint32_t i : only_buffered_) {
      Buffer(group_[i].node, group_[i]);
      SplitIfFull(group_[i].node, group_[i].key);
    }
    for (const Turn& turn : worker_.round.turns) PublishTurn(turn);
    std::erase_if(todo, [&](uint32_t i) { return group_[i].done; });
    if (todo.empty()) return applied_log;
    for (const uint32_t i : todo) group_[i].node = nullptr;
    (void)worker_.spares.Ensure(parts_.spare_source, todo.size() + 1, pmem::ReservePolicy::kKeep);
    PlanRound();
  }
}

// Removes leaves that the group has emptied. Everything is durable, and buffered or drained. Pairs
// are only removed, so nothing is staged before the commit words, which share their fence.
template <class C>
void GroupWrite<C>::DrainEmptied() {
  auto& turns = worker_.round.turns;
  bool any = false;
  for (const Op& pending : group_) {
    if (!pending.tombstone || !pending.apply) continue;
    Node* node = nodes_.held.Covering(pending.key);
    const unsigned leaf = node->Search(pending.key).leaf;
    if (!parts_.planner.IsEmptied(node, leaf)) continue;
    if (!any) worker_.round.Clear();
    any = true;
    // Like the keys, nodes ascend.
    if (turns.empty() || turns.back().node != node) turns.push_back({.node = node});
    turns.back().leaves |= uint32_t{1} << leaf;
  }
  if (!any) return;
  DrainRound<C> round(parts_, worker_);
  worker_.unlinked.clear();
  for (Turn& turn : turns) {
    turn.watermark = parts_.pool.PeekSequence() - 1;
    round.StageTurn(turn, {});
  }
  round.CommitAndPublish();
  for (const Turn& turn : turns) round.FinishTurn(turn);
}

template class GroupWrite<Fixed64Codec>;
template class GroupWrite<BytesCodec>;

}  // namespace lodgekv::lodgetree
