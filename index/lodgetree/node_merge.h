// Joins last-level nodes: if a node has few leaves left, its left neighbour takes over the leaves
// and what is buffered for them, in DRAM; or the node takes over its right neighbour's. If that is
// too much, a node's only leaf is merged into the last one of its left neighbour (leaf_merge.h).
//
// Invariant: only nodes of one parent join, and the left one of the two stays: so the first node
// below an inner node takes over the others, until the inner node is joined too
// (node/inner_tree_shrink.h). Locks are only tried, in any order.
//
// Called without locks.
#pragma once

#include "index/lodgetree/held_nodes.h"
#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

template <class C>
class NodeMerger {
 public:
  using Key = typename C::Key;
  using Node = LastLevelNode<C>;
  using Inner = InnerTree<C, Node>;
  using Attempt = typename Inner::Attempt;

  NodeMerger(TreeParts<C>& parts, Worker<C>& worker) : parts_(parts), worker_(worker) {}

  // Merges the nodes that the worker has noted. A few busy ones are kept; dropped ones are noted
  // again by the next drain that finds their node sparse.
  void MergeSparseNodes();

 private:
  Attempt MergeWithNeighbour(const Key& key);
  Attempt MergeWith(HeldNodes<C>& held, const Key& key, bool into_left);
  Attempt MergeNodes(HeldNodes<C>& held, Node* left, Node* right);
  bool CanJoin(const Node* left, const Node* right) const;
  bool CanEmpty(const Node* left, const Node* right) const;

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

// Call after a write, without locks: completes its deferred work.
template <class C>
void FinishWrite(TreeParts<C>& parts, Worker<C>& worker) {
  // Under a tracer space is reused as soon as possible, and what recovery left is done in steps.
  if (worker.retired.full() || parts.medium.tracer() != nullptr) {
    worker.retired.HandTo(parts.reclaimer);
    parts.rest.StepInPlace();
  }
  worker.spares.Trim(parts.spare_source);
  if (!worker.sparse_nodes.empty()) NodeMerger<C>(parts, worker).MergeSparseNodes();
}

}  // namespace lodgekv::lodgetree
