// The log-less leaf split (LodgeTree III-B): next0/next1 and use_n. Its steps are part of the drain
// that found the leaf full: README, The drain.
//
// Invariants
//  1. A new leaf is complete, and flushed, before the old leaf's unused next pointer refers to it;
//     the single commit word of the old leaf makes all of them valid.
//  2. The leaves that it uses were allocated before the operation's first durable step.
//
// Thread safety: the caller holds the lock of the leaf's node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "index/lodgetree/tree_parts.h"
#include "index/node/record.h"

namespace lodgekv::lodgetree {

template <class C>
class LeafSplitter {
 public:
  using Node = LastLevelNode<C>;
  using Separator = typename C::Separator;

  LeafSplitter(TreeParts<C>& parts, Worker<C>& worker) : parts_(parts), worker_(worker) {}

  // Moves the upper part of the leaf's and the group's pairs to new leaves, the last one first; the
  // fresh pairs that remain are those that stay.
  void Stage(NodeTurn<C>& turn, LeafWork& work);

 private:
  // How the pairs of a splitting leaf are divided: the number of leaves, the lowest part in the old
  // one.
  struct Division {
    unsigned parts;
    size_t stay;  // in the old one
    // How many of `pairs`, to be divided among the remaining leaves, are not in the last one.
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
  void WriteRightLeaf(const NodeTurn<C>& turn, const LeafWork& work, Separator separator,
                      uint64_t next);
  FenceWords StageFence(Separator separator, bool replays);
  StagedRecord StageSpareFence(std::string_view text);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
