// The log-less leaf split (LodgeTree III-B): next0/next1 and use_n. README, The drain, has its
// steps; they are those of the drain that found the leaf full.
//
// Invariants
//  1. A new leaf is whole, and flushed, before the old leaf's unused next pointer leads to it; the
//     one commit word of the old leaf makes all of them count.
//  2. The leaves that it takes were at hand before the operation's first durable step.
//
// Thread safety: for whoever holds the lock of the leaf's node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

template <class C>
class LeafSplitter {
 public:
  using Node = LastLevelNode<C>;
  using Separator = typename C::Separator;

  LeafSplitter(TreeParts<C>& parts, Worker<C>& worker) : parts_(parts), worker_(worker) {}

  // Moves the upper part of the leaf's and the group's pairs to new leaves, the last one first; of
  // the fresh pairs remain those that stay.
  void Stage(NodeTurn<C>& turn, LeafWork& work);

 private:
  // Of the pairs of a leaf that splits: into how many leaves they go, the lowest to the old one.
  struct Division {
    unsigned parts;
    size_t stay;  // in the old one
    // Of so many pairs, for which so many leaves are left, how many are not the last one's.
    size_t Border(size_t pairs) const {
      if (pairs <= stay) return pairs * (parts - 1) / parts;  // damaged ones went elsewhere
      return stay + (pairs - stay) * (parts - 2) / (parts - 1);
    }
  };

  void CollectPairs(const LeafWork& work);
  Division Divide(NodeTurn<C>& turn, const LeafWork& work);
  bool TakeFurtherLeaf(NodeTurn<C>& turn);
  std::span<SplitPair> UpperPart(const Node* node, unsigned leaf, std::span<SplitPair> pairs,
                                 Division division, Separator* separator);
  static bool Divides(const Node* node, unsigned leaf, Separator separator);
  void WriteLeafAside(const LeafWork& work, pmem::Offset space);
  void WriteRightLeaf(const LeafWork& work, Separator separator, uint64_t next);
  FenceWords StageFence(Separator separator);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
