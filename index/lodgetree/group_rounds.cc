// The drains of a group of writes share their fences.
//
// A group is written in rounds, nearly always one. Before the first, each node without enough room
// for its operations chooses leaves to drain. Then all log entries are written and the leaves of
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

// New leaves that a node may use for `ops` operations: none that others may need.
template <class C>
size_t GroupWrite<C>::NewLeavesAllowed(size_t ops) const {
  const Round<C>& round = worker_.round;
  const size_t others = worker_.order.size() - round.planned_ops - ops;
  const auto left = [](size_t all, size_t taken) { return all > taken ? all - taken : 0; };
  size_t allowed = left(worker_.spares.leaves(), round.planned_leaves + others);
  // Of very long separators only a few spare records are kept, so none are reserved for `others`:
  // those of the next round are ensured before it.
  if constexpr (C::kRecords) {
    allowed = std::min(allowed, left(worker_.spares.fences(), round.planned_leaves));
  }
  return allowed;
}

// Whether so many pairs can be buffered without a drain, wherever they belong.
template <class C>
bool GroupWrite<C>::HasRoom(const Node* node, size_t ops) const {
  return node->index_count >= parts_.parameters.crowded_below &&
         unsigned{node->index_count} + node->buf_count + ops <= parts_.parameters.node_slots;
}

// The leaves that a single drain would choose, mostly from when the node was sought.
template <class C>
uint32_t GroupWrite<C>::TargetsOf(const Op& pending, const Node* node) const {
  if (pending.targets != 0) return pending.targets;
  parts_.planner.ChooseTargets(node, pending.leaf, &worker_.plan);
  return worker_.plan.Leaves();
}

// Chooses the leaves that the node drains so that its operations find room: none if there is room.
// Otherwise those that a single drain would choose, and as long as that is not enough, the one with
// most pairs. False: there is no such choice, or not with the new leaves that the node may use.
template <class C>
bool GroupWrite<C>::ChooseLeaves(std::span<const uint32_t> ops, Turn* turn) const {
  const Node* node = turn->node;
  turn->leaves = 0;
  turn->new_leaves = 0;
  if (HasRoom(node, ops.size())) return true;
  unsigned pairs[kNodeSlots] = {};  // of each leaf: buffered pairs and new ones
  for (unsigned i = node->buf_start(); i < kNodeSlots; ++i) ++pairs[node->leaf_count[i]];
  unsigned used = unsigned{node->index_count} + node->buf_count;
  for (const uint32_t i : ops) {
    if (group_[i].buffered >= 0) continue;
    ++pairs[group_[i].leaf];
    ++used;
  }
  const auto more = [&](unsigned leaf) {
    return parts_.parameters.LeavesFor(node->leaf_count[leaf] + pairs[leaf]) - 1;
  };
  const auto drain = [&](unsigned leaf) {
    if ((turn->leaves >> leaf & 1) != 0) return;
    turn->leaves |= uint32_t{1} << leaf;
    turn->new_leaves += more(leaf);
    used = used + more(leaf) - pairs[leaf];
  };
  for (unsigned leaf = 0;
       node->index_count < parts_.parameters.crowded_below && leaf < node->index_count; ++leaf) {
    if (node->leaf_count[leaf] + pairs[leaf] >= 2 * parts_.parameters.leaf_slots) drain(leaf);
  }
  if (used > parts_.parameters.node_slots) {
    for (uint32_t left = TargetsOf(group_[ops[0]], node); left != 0; left &= left - 1) {
      drain(static_cast<unsigned>(std::countr_zero(left)));
    }
  }
  while (used > parts_.parameters.node_slots) {
    unsigned best = kNodeSlots;
    unsigned most = 0;
    for (unsigned leaf = 0; leaf < node->index_count; ++leaf) {
      const unsigned gain = pairs[leaf] - std::min(pairs[leaf], more(leaf));
      if ((turn->leaves >> leaf & 1) != 0 || gain <= most) continue;
      best = leaf;
      most = gain;
    }
    if (best == kNodeSlots) return false;
    drain(best);
  }
  const size_t leaves = node->index_count + turn->new_leaves;
  if (turn->new_leaves > NewLeavesAllowed(ops.size()) || leaves > parts_.parameters.MaxIndex())
    return false;
  turn->further_leaves =
      std::min<size_t>(parts_.parameters.node_slots - used, parts_.parameters.MaxIndex() - leaves);
  return true;
}

// Takes as many of the node's operations as it has room for, in the order of their numbers; the
// others wait for the next round. False: the node was split, and its parts must be planned.
template <class C>
bool GroupWrite<C>::PlanTurn(Turn turn) {
  Round<C>& round = worker_.round;
  const std::span<uint32_t> ops(worker_.order.data() + turn.first_op, turn.op_count);
  if (ops.size() > 1) std::sort(ops.begin(), ops.end());
  for (const uint32_t i : ops) {
    Op& pending = group_[i];
    if (pending.node != turn.node) Place(turn.node, pending);
    pending.node = turn.node;
    pending.buffered =
        static_cast<int8_t>(parts_.access.BufferedIndex(turn.node, pending.key, pending.hits));
  }
  size_t taken = ops.size();
  while (taken > 0 && !ChooseLeaves(ops.first(taken), &turn)) {
    taken -= (taken + 3) / 4;
  }
  const bool later = !round.turns.empty() && NewLeavesAllowed(ops.size()) == 0;
  const bool crowded =
      taken == 0 ? !later : turn.node->index_count > parts_.parameters.MaxIndex() / 2;
  if (taken < ops.size() && turn.node->index_count > 1 && crowded) {
    nodes_.Split(turn.node, group_[ops[0]].key);
    for (const uint32_t i : ops) group_[i].node = nullptr;
    SortByKey(ops);
    return false;
  }
  if (taken == 0) {
    if (round.turns.empty()) NodeWriter<C>::DieWithoutLeaf();
    return true;
  }
  for (const uint32_t i : ops.first(taken)) group_[i].done = true;
  if (taken < ops.size()) turn.waits = ops[taken];
  turn.op_count = taken;
  round.planned_ops += taken;
  round.planned_leaves += turn.new_leaves;
  round.turns.push_back(turn);
  return true;
}

// Gives each node a turn, from left to right like the operations in `order`. Changes nothing except
// that nodes with too many leaves for their operations split.
template <class C>
void GroupWrite<C>::PlanRound() {
  auto& todo = worker_.order;
  worker_.round.Clear();
  for (size_t begin = 0; begin < todo.size();) {
    Turn turn;
    const Op& first = group_[todo[begin]];
    turn.node = first.node != nullptr ? first.node : nodes_.held.Covering(first.key);
    size_t end = begin + 1;
    const auto is_in = [&](const Op& next) {
      return next.node != nullptr ? next.node == turn.node : turn.node->EndsAfter(next.key);
    };
    while (end < todo.size() && is_in(group_[todo[end]])) ++end;
    turn.first_op = begin;
    turn.op_count = end - begin;
    if (PlanTurn(turn)) begin = end;
  }
}

// The records of pairs that may have to be compared when the leaf is staged.
template <class C>
void GroupWrite<C>::FetchDrained(const Node* node, unsigned leaf) const {
  for (uint32_t left = node->GroupMask(leaf); left != 0; left &= left - 1) {
    const Pair pair = node->BufferedPair(static_cast<unsigned>(std::countr_zero(left)));
    const auto may_be = [&](Pair other) {
      if (other.key != pair.key) return false;
      parts_.access.FetchRecord(pair);
      return true;
    };
    parts_.access.FetchRecords(node, leaf, parts_.codec.HashOf(pair), may_be);
  }
}

// What the round reads and writes besides the nodes and the leaves found with them, while the log
// is written.
template <class C>
void GroupWrite<C>::FetchRound() const {
  const Round<C>& round = worker_.round;
  worker_.spares.Prefetch(parts_.pool, round.planned_leaves);
  if constexpr (!C::kRecords) return;
  for (const Turn& turn : round.turns) {
    for (uint32_t leaves = turn.leaves; leaves != 0; leaves &= leaves - 1) {
      FetchDrained(turn.node, static_cast<unsigned>(std::countr_zero(leaves)));
    }
    for (size_t i = turn.first_op; i < turn.first_op + turn.op_count; ++i) {
      const Op& pending = group_[worker_.order[i]];
      if ((turn.leaves >> pending.leaf & 1) == 0) continue;
      const auto may_be = [&](Pair other) { return parts_.codec.MayMatch(pending.key, other); };
      parts_.access.FetchRecords(turn.node, pending.leaf, pending.key.hash, may_be);
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
  round.RetireUnlinked();
}

// The rest goes to the buffer, which has room now: a drain has moved what was found there. Leaves
// merge only then: the watermark of a drained leaf would cover operations that wait for another.
template <class C>
void GroupWrite<C>::PublishTurn(const Turn& turn) {
  const auto& order = worker_.order;
  DrainRound<C> round(parts_, worker_);
  const bool merge_first = parts_.medium.Canary("lodgetree.group.merge_first");
  if (merge_first && turn.leaves != 0) round.FinishTurn(turn);
  const bool moved =
      merge_first || std::ranges::any_of(worker_.round.WorksOf(turn),
                                         [](const LeafWork& work) { return work.flip; });
  for (size_t i = turn.first_op; i < turn.first_op + turn.op_count; ++i) {
    Op& pending = group_[order[i]];
    if ((turn.leaves >> pending.leaf & 1) != 0) continue;
    // The other leaves are where they were unless one has split, and no other pair has the key.
    if (turn.leaves != 0 && (moved || pending.buffered >= 0)) {
      Place(turn.node, pending);
      pending.buffered =
          static_cast<int8_t>(parts_.access.BufferedIndex(turn.node, pending.key, pending.hits));
    }
    if (pending.buffered >= 0) {
      nodes_.Supersede(turn.node, static_cast<unsigned>(pending.buffered), pending);
    } else {
      nodes_.Insert(turn.node, pending.leaf, pending);
    }
  }
  if (!merge_first && turn.leaves != 0) round.FinishTurn(turn);
  if (turn.node->index_count < parts_.parameters.MaxIndex()) return;
  nodes_.Split(turn.node, group_[order[turn.first_op]].key);
}

// Returns the log that holds the applied index, if one is given.
template <class C>
uint32_t GroupWrite<C>::WriteInRounds() {
  auto& todo = worker_.order;
  std::erase_if(todo, [&](uint32_t i) { return !group_[i].apply; });
  FinishEntries();
  if (todo.empty()) return AppendToLog();
  PlanRound();
  FetchRound();
  const uint32_t applied_log = AppendToLog();
  for (;;) {
    StageRound();
    for (const Turn& turn : worker_.round.turns) PublishTurn(turn);
    std::erase_if(todo, [&](uint32_t i) { return group_[i].done; });
    if (todo.empty()) return applied_log;
    for (const uint32_t i : todo) group_[i].node = nullptr;
    SortByKey(todo);
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
    auto turn = std::find_if(turns.begin(), turns.end(),
                             [node](const Turn& other) { return other.node == node; });
    if (turn == turns.end()) turn = turns.insert(turn, Turn{.node = node});
    turn->leaves |= uint32_t{1} << leaf;
  }
  if (!any) return;
  DrainRound<C> round(parts_, worker_);
  worker_.unlinked.clear();
  for (Turn& turn : turns) {
    turn.watermark = parts_.pool.PeekSequence() - 1;
    round.StageTurn(turn, {});
  }
  round.CommitAndPublish();
  round.RetireUnlinked();
  for (const Turn& turn : turns) round.FinishTurn(turn);
}

template class GroupWrite<Fixed64Codec>;
template class GroupWrite<BytesCodec>;

}  // namespace lodgekv::lodgetree
