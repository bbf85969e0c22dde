// The flushes of a group of writes share their fences.
//
// A group is written in rounds, nearly always one. Before the first, each node that has no room
// for what comes to it chooses leaves to drain; then all log entries are written; then the leaves
// of all nodes are staged, and one fence serves both. The commit words of all leaves share the next
// fence, and second commits, where there are any, the two behind it (leaf_count_flush.cc has the
// steps).
//
// Drained is also what the group itself brings to such a leaf: it need not fit into the buffer, so
// ascending keys go to their leaf at once, which splits into as many as they fill. The rest goes to
// the buffers when all is durable.
//
// The watermark of a round is the number before that of the node's first operation that has to
// wait for a later one, and else the last number taken: all operations of the node up to it are in
// the round, since numbers were taken under the lock, and those of a leaf that is drained are
// drained.
#include <algorithm>
#include <bit>

#include "index/lodgetree/lodgetree.h"

namespace lodgekv::lodgetree {

// In a pool that has no leaf for each operation, they are admitted and flushed one by one.
template <class C>
bool LodgeTree<C>::SharesFences(const WriteContext& context,
                                std::span<const PendingOp> group) const {
  return group.size() > 1 && context.worker.spares.leaves() > group.size() &&
         parameters_.surrogate_buffer && !parameters_.split_alone;
}

// Returns the log that holds the applied index, if one is given.
template <class C>
uint32_t LodgeTree<C>::WriteInRounds(WriteContext& context, std::span<PendingOp> group,
                                     const WriteOptions& options) {
  auto& todo = context.worker.order;
  std::erase_if(todo, [&](uint32_t i) { return !group[i].apply; });
  if (todo.empty()) return AppendToLog(group, options);
  PlanRound(context, group);
  const uint32_t applied_log = AppendToLog(group, options);
  for (;;) {
    StageRound(context, group);
    for (const NodeTurn& turn : context.worker.round.turns) PublishTurn(context, group, turn);
    std::erase_if(todo, [&](uint32_t i) { return group[i].done; });
    if (todo.empty()) return applied_log;
    SortByKey(group, todo);
    (void)context.worker.spares.Ensure(spare_source_, todo.size() + 1, pmem::Reserve::kKeep);
    PlanRound(context, group);
  }
}

// --- plan ---

// Gives each node a turn, from left to right as the operations in `order`. Changes nothing but that
// nodes split which have too many leaves for what comes.
template <class C>
void LodgeTree<C>::PlanRound(WriteContext& context, std::span<PendingOp> group) {
  auto& todo = context.worker.order;
  context.worker.round.Clear();
  for (size_t begin = 0; begin < todo.size();) {
    NodeTurn turn;
    turn.node = context.Covering(group[todo[begin]].key);
    size_t end = begin + 1;
    while (end < todo.size() &&
           (!turn.node->bounded || C::CompareToKey(turn.node->high, group[todo[end]].key) > 0)) {
      ++end;
    }
    turn.first_op = begin;
    turn.op_count = end - begin;
    if (PlanTurn(context, group, turn)) begin = end;
  }
}

// New leaves that a node may have for `ops` operations: not those that others may come to need.
template <class C>
size_t LodgeTree<C>::NewLeavesAllowed(const Worker& worker, size_t ops) const {
  const Round& round = worker.round;
  const size_t others = worker.order.size() - round.planned_ops - ops;
  const auto left = [](size_t all, size_t taken) { return all > taken ? all - taken : 0; };
  size_t allowed = left(worker.spares.leaves(), round.planned_leaves + others);
  // Of very long separators there are few at a time: the next round is made sure of before it.
  if constexpr (C::kRecords) {
    allowed = std::min(allowed, left(worker.spares.fences(), round.planned_leaves));
  }
  return allowed;
}

// Takes as many of the node's operations as it has room for, in the order of their numbers; the
// others wait for the next round. False: the node was split, and its parts are to be planned.
template <class C>
bool LodgeTree<C>::PlanTurn(WriteContext& context, std::span<PendingOp> group, NodeTurn turn) {
  Worker& worker = context.worker;
  Round& round = worker.round;
  const std::span<uint32_t> ops(worker.order.data() + turn.first_op, turn.op_count);
  std::sort(ops.begin(), ops.end());
  for (const uint32_t i : ops) {
    const auto position = turn.node->Search(group[i].key);
    const int at = BufferedIndex(turn.node, group[i].key, position.hits);
    group[i].leaf = static_cast<uint8_t>(position.leaf);
    group[i].buffered = static_cast<int8_t>(at);
  }
  size_t taken = ops.size();
  while (taken > 0 && !ChooseLeaves(worker, group, ops.first(taken), &turn)) {
    taken -= (taken + 3) / 4;
  }
  const bool later = !round.turns.empty() && NewLeavesAllowed(worker, ops.size()) == 0;
  const bool crowded = taken == 0 ? !later : turn.node->index_count > MaxIndex() / 2;
  if (taken < ops.size() && turn.node->index_count > 1 && crowded) {
    SplitNode(context, turn.node, group[ops[0]].key);
    SortByKey(group, ops);
    return false;
  }
  if (taken == 0) {
    if (round.turns.empty()) DieWithoutLeaf();
    return true;
  }
  for (const uint32_t i : ops.first(taken)) group[i].done = true;
  if (taken < ops.size()) turn.waits = ops[taken];
  turn.op_count = taken;
  round.planned_ops += taken;
  round.planned_leaves += turn.new_leaves;
  round.turns.push_back(turn);
  return true;
}

// Which leaves the node drains, so that what comes finds room: none, where there is room. Else
// those that a lone flush would choose, and as long as that is not enough the one with most pairs.
// False: there is no such choice, or not with the new leaves that the node may have.
template <class C>
bool LodgeTree<C>::ChooseLeaves(Worker& worker, std::span<const PendingOp> group,
                                std::span<const uint32_t> ops, NodeTurn* turn) const {
  const Node* node = turn->node;
  unsigned pairs[kNodeSlots];  // of each leaf: those that are buffered for it, and those that come
  for (unsigned leaf = 0; leaf < node->index_count; ++leaf) {
    pairs[leaf] = static_cast<unsigned>(std::popcount(node->GroupMask(leaf)));
  }
  unsigned used = unsigned{node->index_count} + node->buf_count;
  for (const uint32_t i : ops) {
    if (group[i].buffered >= 0) continue;
    ++pairs[group[i].leaf];
    ++used;
  }
  turn->leaves = 0;
  turn->new_leaves = 0;
  const auto more = [&](unsigned leaf) {
    return LeavesFor(node->leaf_count[leaf] + pairs[leaf]) - 1;
  };
  const auto drain = [&](unsigned leaf) {
    if ((turn->leaves >> leaf & 1) != 0) return;
    turn->leaves |= uint32_t{1} << leaf;
    turn->new_leaves += more(leaf);
    used = used + more(leaf) - pairs[leaf];
  };
  for (unsigned leaf = 0; node->index_count < crowded_below_ && leaf < node->index_count; ++leaf) {
    if (node->leaf_count[leaf] + pairs[leaf] >= 2 * parameters_.leaf_slots) drain(leaf);
  }
  if (used > parameters_.node_slots) {
    ChooseTargets(node, group[ops[0]].leaf, &worker.plan);
    for (unsigned i = 0; i < worker.plan.count; ++i) drain(worker.plan.targets[i].leaf);
  }
  while (used > parameters_.node_slots) {
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
  if (turn->new_leaves > NewLeavesAllowed(worker, ops.size()) || leaves > MaxIndex()) return false;
  turn->further_leaves = std::min<size_t>(parameters_.node_slots - used, MaxIndex() - leaves);
  return true;
}

// --- stage, commit and publish ---

template <class C>
void LodgeTree<C>::StageRound(WriteContext& context, std::span<PendingOp> group) {
  Worker& worker = context.worker;
  const uint64_t own = medium_.Canary("lodgetree.flush.own_number") ? 1 : 0;
  const bool of_all = medium_.Canary("lodgetree.group.watermark_of_all");
  bool flushes = false;
  for (NodeTurn& turn : worker.round.turns) {
    if (turn.leaves == 0) continue;
    const bool all = turn.waits == NodeTurn::kNone || of_all;
    const uint64_t next = all ? pool_.PeekSequence() : group[turn.waits].sequence;
    turn.watermark = next - 1 + own;
    StageTurn(worker, turn, group);
    flushes = true;
  }
  if (!flushes) return EnsureFenced(context);
  FenceRound(context);
  CommitAndPublish(worker);
  RetireUnlinked(worker);
}

// Of the operations of the turn: which go to their leaf with the flush. Returns the buffered pairs
// that they supersede.
template <class C>
uint32_t LodgeTree<C>::SendDirect(Worker& worker, NodeTurn& turn, std::span<PendingOp> group) {
  uint32_t superseded = 0;
  for (size_t i = turn.first_op; i < turn.first_op + turn.op_count; ++i) {
    PendingOp& pending = group[worker.order[i]];
    if ((turn.leaves >> pending.leaf & 1) == 0) continue;
    worker.drained_logs.push_back(pending.log);
    turn.removes |= pending.tombstone;
    if (pending.buffered < 0) continue;
    const auto at = static_cast<unsigned>(pending.buffered);
    superseded |= uint32_t{1} << at;
    worker.counters.Add(WorkerCounters::kSuperseded);
    if (LosesRecord(turn.node, at, pending)) worker.unlinked.push_back(turn.node->values[at]);
  }
  return superseded;
}

// Their log entries share the fence of the leaf's new slots.
template <class C>
void LodgeTree<C>::SortDirect(Worker& worker, const NodeTurn& turn, std::span<PendingOp> group,
                              LeafWork& work) {
  const bool in_place = medium_.Canary("lodgetree.group.update_in_place");
  for (size_t i = turn.first_op; i < turn.first_op + turn.op_count; ++i) {
    const PendingOp& pending = group[worker.order[i]];
    if (pending.leaf != work.leaf) continue;
    SortPair(worker, turn.node, pending.staged.pair, pending.tombstone, in_place, work);
  }
}

// What is left goes to the buffer, where there is room now. Leaves merge only then: the watermark
// of a leaf that was drained would speak for what waits for another.
template <class C>
void LodgeTree<C>::PublishTurn(WriteContext& context, std::span<PendingOp> group,
                               const NodeTurn& turn) {
  const auto& order = context.worker.order;
  const bool merge_first = medium_.Canary("lodgetree.group.merge_first");
  if (merge_first && turn.leaves != 0) FinishTurn(context.worker, turn);
  for (size_t i = turn.first_op; i < turn.first_op + turn.op_count; ++i) {
    PendingOp& pending = group[order[i]];
    if ((turn.leaves >> pending.leaf & 1) != 0) continue;
    const auto position = turn.node->Search(pending.key);
    const int at = BufferedIndex(turn.node, pending.key, position.hits);
    if (at >= 0) {
      Supersede(context, turn.node, static_cast<unsigned>(at), pending);
    } else {
      InsertBuffered(turn.node, position.leaf, pending);
    }
  }
  if (!merge_first && turn.leaves != 0) FinishTurn(context.worker, turn);
  if (turn.node->index_count < MaxIndex()) return;
  SplitNode(context, turn.node, group[order[turn.first_op]].key);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
