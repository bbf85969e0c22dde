// The log-less leaf merge, the reverse of the leaf split. Deletes leave sparse leaves; the left one
// of two neighbours takes over the pairs and the range of the right one. README, The log-less leaf
// merge.
//
// Invariants: both leaves have nothing buffered, so all numbers up to the watermark are in them: it
// may rise before the commit. It must not be below the right leaf's: log entries of the range taken
// over would become valid again.
//
// Thread safety: the caller holds the locks of the leaves' nodes.
#pragma once

#include <cstdint>

#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

template <class C>
class LeafMerger {
 public:
  using Node = LastLevelNode<C>;

  LeafMerger(TreeParts<C>& parts, Worker<C>& worker) : parts_(parts), worker_(worker) {}

  // Merges what is possible in a node from which pairs have been deleted.
  void MergeSparseLeaves(Node* node, uint64_t watermark);
  // The node will be merged with a neighbour (node_merge.h) when no lock is held.
  void NoteIfSparse(const Node* node);
  bool IsSparse(const Node* node) const {
    return node->index_count <= parts_.parameters.node_slots / 4;
  }
  // A merged leaf must not be about to split again. Taking over an empty one costs nothing.
  bool AreSparse(unsigned left_count, unsigned right_count) const {
    return right_count == 0 || left_count + right_count <= parts_.parameters.t_split * 2 / 3;
  }

  // Leaf `left` of `node` takes over leaf `right` of `other`, which may be the same node, on the
  // medium; then Publish updates the node. False: during replay, older entries of a leaf may still
  // follow.
  bool Commit(Node* node, unsigned left, Node* other, unsigned right, uint64_t watermark);
  void Publish(Node* node) const;
  // Frees a leaf that was taken over.
  void FreeLeaf(pmem::Offset offset);

 private:
  bool MergeIntoLeftLeaf(Node* node, unsigned right, uint64_t watermark);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
