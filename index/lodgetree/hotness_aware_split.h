// The Hotness-Aware Multiple Split of a last-level node (LodgeTree III-C, Fig. 7-9, Formula 1). It
// changes DRAM only: a crash undoes it, recovery builds nodes anew.
//
// Invariant: the parent is published first, while readers of the old node wait. The caller holds
// the node's lock.
#pragma once

#include "index/lodgetree/held_nodes.h"
#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

template <class C>
class NodeSplitter {
 public:
  using Key = typename C::Key;
  using Node = LastLevelNode<C>;
  using Inner = InnerTree<C, Node>;

  NodeSplitter(TreeParts<C>& parts, Worker<C>& worker) : parts_(parts), worker_(worker) {}

  // The new nodes are held too. Returns the one that covers `key`, which `node` covered.
  Node* Split(HeldNodes<C>& held, Node* node, const Key& key);

 private:
  unsigned NodesAfterSplit(const Node* node, unsigned free_slots);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
