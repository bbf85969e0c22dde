// Joins a sparse leaf with its neighbour in the same sub-index: the right one's pairs go to free
// slots of the left one, whose state word commits them together with the sibling behind (TLBtree
// III (4)). The protocol is Merge's crash table in README.md.
//
// INVARIANT: the right leaf has no entry, durably, when it is unlinked; and from then on no thread
// that saw it before can use it: its lock's version rises.
//
// Thread-safe. Called without locks.
#pragma once

#include <string>
#include <utility>

#include "index/tlbtree/leaf_writer.h"
#include "index/tlbtree/sub_indices.h"

namespace lodgekv::tlbtree {

template <class C>
class LeafMerger {
 public:
  using Node = media::Node<C>;

  explicit LeafMerger(TreeState<C>& tree)
      : tree_(tree), sub_indices_(tree), check_(tree), writer_(tree) {}

  // Whether deletes have just made a leaf sparse, or empty.
  bool BecameSparse(unsigned before, unsigned after) const {
    const unsigned few = tree_.parameters.leaf_slots / 4;
    return tree_.parameters.merges && (after == 0 || (before > few && after <= few));
  }
  // For Merge, later. Only a few: beyond that, sparse leaves stay until they are written again.
  static void Note(Worker& worker, std::string text) {
    constexpr size_t kMost = 64;
    if (worker.sparse.size() < kMost) worker.sparse.push_back(std::move(text));
  }
  // Merges the key's leaf, if it is still sparse and a neighbour has room; then its sub-index, if
  // that has no other leaf.
  void Merge(const std::string& text);

 private:
  // Two neighbours, the right one's place among the entries, and their locks.
  struct Two {
    Node* left;
    Node* right;
    LinkTo link;             // from left to right
    int entry = kNotListed;  // by the sub-index
    bool same_lock;
  };
  static constexpr int kNotListed = -1;
  bool Find(const AnchorPlace& place, const Target<C>& target, Two* two) const;
  bool LockBoth(Two* two) const;
  bool Fits(const Two& two) const;
  void Join(Worker& worker, const AnchorPlace& place, const Two& two);
  NodeState StagePairs(const Two& two);
  // True: the sub-index has one leaf.
  bool MergeInSubIndex(const std::string& text);

  TreeState<C>& tree_;
  SubIndices<C> sub_indices_;
  const NodeCheck<C> check_;
  LeafWriter<C> writer_;
};

}  // namespace lodgekv::tlbtree
