// When a node is drained, and which of its leaves.
//
// At most t_node leaves are drained at once, of which at most one is about to split: so the most
// that a single operation writes stays small, and an insert rarely drains twice. The drains of a
// group of writes take more leaves if more needs room (group_plan.cc).
#include "index/lodgetree/drain_plan.h"

#include <bit>

namespace lodgekv::lodgetree {

// If the buffered group and the leaf's pairs would not fit into two leaves, the leaf must be
// drained before the group grows.
template <class C>
bool DrainPlanner<C>::Crowded(const Node* node, unsigned leaf) const {
  const auto group = static_cast<unsigned>(std::popcount(node->GroupMask(leaf)));
  return node->leaf_count[leaf] + group + 2 > 2 * parameters_.leaf_slots;
}

template <class C>
bool DrainPlanner<C>::NeedsDrain(const Node* node, unsigned leaf) const {
  if (unsigned{node->index_count} + node->buf_count >= parameters_.node_slots) return true;
  return IsCrowded(node, leaf);
}

// False: stop grouping.
template <class C>
bool DrainPlanner<C>::AddTarget(const Node* node, unsigned leaf, DrainPlan* plan) const {
  const uint32_t group = node->GroupMask(leaf);
  const auto pairs = static_cast<unsigned>(std::popcount(group));
  const bool splits = node->leaf_count[leaf] + pairs > parameters_.t_split;
  // The paper's second stop: a leaf about to split is drained alone.
  if (splits && parameters_.split_alone && plan->count > 0) return false;
  if (splits && plan->splits > 0) return true;
  plan->targets[plan->count++] = {static_cast<uint8_t>(leaf), group};
  plan->splits += splits ? 1 : 0;

  __builtin_prefetch(&node->mirrors[leaf], 1, 3);
  const uintptr_t line = access_.LeafAddress(node, leaf);
  for (unsigned i = 0; i < kLeafLines; ++i) {
    __builtin_prefetch(reinterpret_cast<const void*>(line + i * pmem::kLineBytes), 1, 3);
  }
  return !(splits && parameters_.split_alone);
}

// Begins with the oldest pair, like the paper's traversal; the first stop is t_node. May read a
// node that is changing: then the plan is not used.
template <class C>
void DrainPlanner<C>::ChooseTargets(const Node* node, unsigned leaf, DrainPlan* plan) const {
  plan->Clear();
  uint32_t left = node->BufferMask();
  if (IsCrowded(node, leaf)) {
    left &= ~node->GroupMask(leaf);
    if (!AddTarget(node, leaf, plan)) return;
  }
  const unsigned most = parameters_.leaf_count_flush ? parameters_.t_node : kMaxTargets;
  while (left != 0 && plan->count < most) {
    const unsigned oldest = 31 - static_cast<unsigned>(std::countl_zero(left));
    const unsigned target = node->leaf_count[oldest];
    if (target >= kNodeSlots) return;
    left &= ~(node->GroupMask(target) | uint32_t{1} << oldest);
    if (!AddTarget(node, target, plan)) return;
  }
}

// When there is no free leaf: what can be drained without one.
template <class C>
void DrainPlanner<C>::DropSplits(const Node* node, DrainPlan* plan) const {
  plan->Clear();
  for (unsigned leaf = 0; leaf < node->index_count; ++leaf) {
    const Target target{static_cast<uint8_t>(leaf), node->GroupMask(leaf)};
    if (target.group != 0 && !Splits(node, target)) plan->targets[plan->count++] = target;
  }
}

// Exact, where AddTarget counts every buffered pair as new.
template <class C>
bool DrainPlanner<C>::Splits(const Node* node, const Target& target) const {
  return PairsAfter(node, target, 0) > parameters_.t_split;
}

// Leaves that would split if everything buffered were drained.
template <class C>
size_t DrainPlanner<C>::PendingSplits(const Node* node) const {
  size_t splits = 0;
  for (unsigned leaf = 0; leaf < node->index_count; ++leaf) {
    const uint32_t group = node->GroupMask(leaf);
    splits += group != 0 && Splits(node, {static_cast<uint8_t>(leaf), group}) ? 1 : 0;
  }
  return splits;
}

// Whether the leaf has room for the pair of `key` too, once everything buffered is there.
template <class C>
bool DrainPlanner<C>::Fits(const Node* node, unsigned leaf, const Key& key) const {
  const Target target{static_cast<uint8_t>(leaf), node->GroupMask(leaf)};
  const auto most = node->leaf_count[leaf] + static_cast<unsigned>(std::popcount(target.group)) + 1;
  if (most <= parameters_.t_split || access_.FindInLeaf(node, leaf, key) >= 0) return true;
  return PairsAfter(node, target, 1) <= parameters_.t_split;
}

// The pairs of a leaf after a drain with `more` new ones; 0: nothing is new.
template <class C>
unsigned DrainPlanner<C>::PairsAfter(const Node* node, const Target& target, unsigned more) const {
  unsigned kept = node->leaf_count[target.leaf];
  unsigned fresh = more;
  for (uint32_t left = target.group; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    const bool in_leaf = access_.FindPairInLeaf(node, target.leaf, node->BufferedPair(i)) >= 0;
    if (!in_leaf && !node->IsTombstone(i)) ++fresh;
    if (in_leaf && node->IsTombstone(i)) --kept;
  }
  return fresh > 0 ? kept + fresh : 0;
}

// Whether all of the leaf's pairs are deleted by buffered deletes. If the leaf is empty, it must
// also be removable. (A delete may also be for a pair that never left the buffer.)
template <class C>
bool DrainPlanner<C>::IsEmptied(const Node* node, unsigned leaf) const {
  const uint32_t group = node->GroupMask(leaf);
  if (group == 0 || (group & ~node->tombstones) != 0) return false;
  unsigned left = node->leaf_count[leaf];
  if (left == 0) return node->index_count > 1;
  if (static_cast<unsigned>(std::popcount(group)) < left) return false;
  for (uint32_t deletes = group; deletes != 0; deletes &= deletes - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(deletes));
    left -= access_.FindPairInLeaf(node, leaf, node->BufferedPair(i)) >= 0 ? 1 : 0;
  }
  return left == 0;
}

// A delete, or a put of a key that is in the leaf with another record.
template <class C>
bool DrainPlanner<C>::HoldsSpace(const Node* node, const Target& target) const {
  if ((target.group & node->tombstones) != 0) return true;
  if constexpr (!C::kRecords) return false;
  for (uint32_t left = target.group; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    if (access_.FindPairInLeaf(node, target.leaf, node->BufferedPair(i)) >= 0) return true;
  }
  return false;
}

template class DrainPlanner<Fixed64Codec>;
template class DrainPlanner<BytesCodec>;

}  // namespace lodgekv::lodgetree
