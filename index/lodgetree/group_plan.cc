// The plan of a round: which operations of a group are in it, and which leaves their nodes drain.
//
// A node drains nothing if its operations find room in the buffer. Otherwise it drains the leaves
// that a single drain would choose, and as long as that is not enough, the one with most pairs.
// Nearly every node has one operation, for which that single choice is nearly always enough:
// PlanOne decides those with a few loads, and leaves all others to PlanTurn. Most of them are only
// buffered, and need no turn.
#include <algorithm>
#include <bit>

#include "index/lodgetree/group_write.h"

namespace lodgekv::lodgetree {

namespace {

// What a node holds if its operations come in and some of its leaves are drained.
template <class C>
class LeafChoice {
 public:
  LeafChoice(const Parameters& parameters, const LastLevelNode<C>* node)
      : parameters_(parameters), node_(node), used_(unsigned{node->index_count} + node->buf_count) {
    for (unsigned i = node->buf_start(); i < kNodeSlots; ++i) ++pairs_[node->leaf_count[i]];
  }

  uint32_t leaves() const { return leaves_; }
  size_t new_leaves() const { return new_leaves_; }
  unsigned used() const { return used_; }
  bool fits() const { return used_ <= parameters_.node_slots; }

  // A new pair, which the node buffers unless its leaf is drained.
  void Add(unsigned leaf) {
    ++pairs_[leaf];
    ++used_;
  }
  void Drain(unsigned leaf) {
    if (Drains(leaf)) return;
    leaves_ |= uint32_t{1} << leaf;
    new_leaves_ += More(leaf);
    used_ = used_ + More(leaf) - pairs_[leaf];
  }
  void DrainCrowded() {
    for (unsigned leaf = 0; leaf < node_->index_count; ++leaf) {
      if (node_->leaf_count[leaf] + pairs_[leaf] >= 2 * parameters_.leaf_slots) Drain(leaf);
    }
  }
  // The leaf whose drain makes most room. False: none makes any.
  bool DrainBest() {
    unsigned best = kNodeSlots;
    unsigned most = 0;
    for (unsigned leaf = 0; leaf < node_->index_count; ++leaf) {
      const unsigned gain = pairs_[leaf] - std::min(pairs_[leaf], More(leaf));
      if (Drains(leaf) || gain <= most) continue;
      best = leaf;
      most = gain;
    }
    if (best != kNodeSlots) Drain(best);
    return best != kNodeSlots;
  }

 private:
  bool Drains(unsigned leaf) const { return (leaves_ >> leaf & 1) != 0; }
  // The leaves that it is split into besides itself.
  unsigned More(unsigned leaf) const {
    return parameters_.LeavesFor(node_->leaf_count[leaf] + pairs_[leaf]) - 1;
  }

  const Parameters& parameters_;
  const LastLevelNode<C>* const node_;
  unsigned pairs_[kNodeSlots] = {};  // of each leaf: buffered and new
  unsigned used_;                    // slots of the node
  uint32_t leaves_ = 0;
  size_t new_leaves_ = 0;
};

}  // namespace

// New leaves that a node may use for `ops` operations: none that others may need.
template <class C>
size_t GroupWrite<C>::NewLeavesAllowed(size_t ops) const {
  const Round<C>& round = worker_.round;
  const size_t others = worker_.todo.size() - round.planned_ops - ops;
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

// Lets the node of `ops` operations drain these leaves and use `used` slots then, if it may use the
// new leaves and has slots for them.
template <class C>
bool GroupWrite<C>::Accept(uint32_t leaves, size_t new_leaves, unsigned used, size_t ops,
                           Turn* turn) const {
  const size_t leaves_after = turn->node->index_count + new_leaves;
  if (used > parts_.parameters.node_slots || leaves_after > parts_.parameters.MaxIndex())
    return false;
  if (new_leaves != 0 && new_leaves > NewLeavesAllowed(ops)) return false;
  turn->leaves = leaves;
  turn->new_leaves = new_leaves;
  turn->further_leaves = std::min<size_t>(parts_.parameters.node_slots - used,
                                          parts_.parameters.MaxIndex() - leaves_after);
  return true;
}

// Chooses the leaves that the node drains so that its operations find room: none if there is room.
// False: there is no such choice.
template <class C>
bool GroupWrite<C>::ChooseLeaves(std::span<const uint32_t> ops, Turn* turn) const {
  const Node* node = turn->node;
  turn->leaves = 0;
  turn->new_leaves = 0;
  if (HasRoom(node, ops.size())) return true;
  LeafChoice<C> choice(parts_.parameters, node);
  for (const uint32_t i : ops) {
    if (group_[i].buffered < 0) choice.Add(group_[i].leaf);
  }
  if (node->index_count < parts_.parameters.crowded_below) choice.DrainCrowded();
  if (!choice.fits()) {
    for (uint32_t left = TargetsOf(group_[ops[0]], node); left != 0; left &= left - 1) {
      choice.Drain(static_cast<unsigned>(std::countr_zero(left)));
    }
  }
  while (!choice.fits()) {
    if (!choice.DrainBest()) return false;
  }
  return Accept(choice.leaves(), choice.new_leaves(), choice.used(), ops.size(), turn);
}

// Where the operation's key is in the node, which is locked.
template <class C>
void GroupWrite<C>::Locate(Node* node, Op& pending) const {
  if (pending.node != node) Place(node, pending);
  pending.node = node;
  pending.buffered =
      static_cast<int8_t>(parts_.access.BufferedIndex(node, pending.key, pending.hits));
}

// The choice for a single operation whose pair needs room: what its own drain would drain, if that
// is enough.
template <class C>
bool GroupWrite<C>::ChooseForOne(const Op& pending, Turn* turn) const {
  const Node* node = turn->node;
  const uint32_t leaves = TargetsOf(pending, node);
  size_t new_leaves = 0;
  unsigned used = unsigned{node->index_count} + node->buf_count + 1;
  for (uint32_t left = leaves; left != 0; left &= left - 1) {
    const auto leaf = static_cast<unsigned>(std::countr_zero(left));
    const unsigned own = leaf == pending.leaf ? 1 : 0;
    const unsigned pairs = static_cast<unsigned>(std::popcount(node->GroupMask(leaf))) + own;
    const unsigned more = parts_.parameters.LeavesFor(node->leaf_count[leaf] + pairs) - 1;
    new_leaves += more;
    used = used + more - pairs;
  }
  return Accept(leaves, new_leaves, used, 1, turn);
}

// Plans the only operation of a node. False: that needs more than a few loads, nothing is planned.
template <class C>
bool GroupWrite<C>::PlanOne(Node* node, size_t at) {
  Round<C>& round = worker_.round;
  const uint32_t i = worker_.todo[at];
  Op& pending = group_[i];
  Locate(node, pending);
  if (pending.buffered >= 0 || !parts_.planner.NeedsDrain(node, pending.leaf)) {
    only_buffered_.push_back(i);
  } else {
    Turn turn{.node = node, .first_op = at, .op_count = 1};
    if (!ChooseForOne(pending, &turn)) return false;
    round.planned_leaves += turn.new_leaves;
    round.turns.push_back(turn);
  }
  pending.done = true;
  ++round.planned_ops;
  return true;
}

// Takes as many of the node's operations as it has room for, in the order of their numbers; the
// others wait for the next round. False: the node was split, and its parts must be planned.
template <class C>
bool GroupWrite<C>::PlanTurn(Turn turn) {
  Round<C>& round = worker_.round;
  const std::span<const uint32_t> ops(worker_.todo.data() + turn.first_op, turn.op_count);
  for (const uint32_t i : ops) Locate(turn.node, group_[i]);
  size_t taken = ops.size();
  while (taken > 0 && !ChooseLeaves(ops.first(taken), &turn)) {
    taken -= (taken + 3) / 4;
  }
  const bool later = round.planned_ops != 0 && NewLeavesAllowed(ops.size()) == 0;
  const bool crowded =
      taken == 0 ? !later : turn.node->index_count > parts_.parameters.MaxIndex() / 2;
  if (taken < ops.size() && turn.node->index_count > 1 && crowded) {
    nodes_.Split(turn.node, group_[ops[0]].key);
    for (const uint32_t i : ops) group_[i].node = nullptr;
    return false;
  }
  if (taken == 0) {
    if (round.planned_ops == 0) NodeWriter<C>::DieWithoutLeaf();
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

// Gives each node a turn, from left to right like the operations to do; except those whose only
// operation is only buffered. Changes nothing except that nodes with too many leaves for their
// operations split.
template <class C>
void GroupWrite<C>::PlanRound() {
  const auto& todo = worker_.todo;
  worker_.round.Clear();
  only_buffered_.clear();
  for (size_t begin = 0; begin < todo.size();) {
    const Op& first = group_[todo[begin]];
    Node* node = first.node != nullptr ? first.node : nodes_.held.Covering(first.key);
    const auto is_in = [&](const Op& next) {
      return next.node != nullptr ? next.node == node : node->EndsAfter(next.key);
    };
    size_t end = begin + 1;
    while (end < todo.size() && is_in(group_[todo[end]])) ++end;
    const size_t count = end - begin;
    const bool planned = (count == 1 && PlanOne(node, begin)) ||
                         PlanTurn({.node = node, .first_op = begin, .op_count = count});
    if (planned) begin = end;
  }
}

template class GroupWrite<Fixed64Codec>;
template class GroupWrite<BytesCodec>;

}  // namespace lodgekv::lodgetree
