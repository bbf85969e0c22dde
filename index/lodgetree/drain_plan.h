// Chooses the leaves of a node to drain: the Leaf Count-Based Flush's choice (LodgeTree III-B, Fig.
// 6). Draining a leaf moves every pair buffered for it to the leaf.
//
// Invariants
//  1. A plan has all buffered pairs of each of its leaves (the drain rule): only then may the
//     leaf's watermark cover the whole leaf.
//  2. `splits` counts the leaves of the plan that may split, counting every buffered pair as new;
//     Splits is exact.
//
// A planner reads nodes and changes nothing. The caller holds the node's lock, except for
// ChooseTargets and NeedsDrain, which may read a node that is changing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "index/lodgetree/leaf_access.h"
#include "index/lodgetree/parameters.h"

namespace lodgekv::lodgetree {

struct DrainPlan {
  struct Target {
    uint8_t leaf;
    uint32_t group;  // the pairs buffered for it
  };
  unsigned count = 0;
  unsigned splits = 0;
  std::array<Target, kMaxTargets> targets;

  void Clear() { count = splits = 0; }
  bool Has(unsigned leaf) const {
    return std::any_of(targets.begin(), targets.begin() + count,
                       [leaf](const Target& target) { return target.leaf == leaf; });
  }
  uint32_t Leaves() const {
    uint32_t leaves = 0;
    for (unsigned i = 0; i < count; ++i) leaves |= uint32_t{1} << targets[i].leaf;
    return leaves;
  }
};

template <class C>
class DrainPlanner {
 public:
  using Key = typename C::Key;
  using Node = LastLevelNode<C>;
  using Target = DrainPlan::Target;

  DrainPlanner(const Parameters& parameters, const LeafAccess<C>& access)
      : parameters_(parameters), access_(access) {}

  // Call before a pair for `leaf` is buffered.
  bool NeedsDrain(const Node* node, unsigned leaf) const;
  // Only draining the leaf itself makes room for it.
  bool IsCrowded(const Node* node, unsigned leaf) const {
    return node->index_count < parameters_.crowded_below && Crowded(node, leaf);
  }
  void ChooseTargets(const Node* node, unsigned leaf, DrainPlan* plan) const;
  // False: stop grouping.
  bool AddTarget(const Node* node, unsigned leaf, DrainPlan* plan) const;
  void DropSplits(const Node* node, DrainPlan* plan) const;

  bool Splits(const Node* node, const Target& target) const;
  size_t PendingSplits(const Node* node) const;
  bool Fits(const Node* node, unsigned leaf, const Key& key) const;
  bool IsEmptied(const Node* node, unsigned leaf) const;
  bool HoldsSpace(const Node* node, const Target& target) const;

 private:
  bool Crowded(const Node* node, unsigned leaf) const;
  unsigned PairsAfter(const Node* node, const Target& target, unsigned more) const;

  const Parameters& parameters_;
  const LeafAccess<C>& access_;
};

}  // namespace lodgekv::lodgetree
