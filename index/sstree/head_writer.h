// Changes of a leaf that write the head's first line alone: its word, with a pair beside it or
// without one. One flush and one fence; the crash table is One line in README.md. What needs more,
// LeafWriter does (leaf_writer.h).
//
// Thread-safe for different leaves; for one leaf, only the holder of its lock may call.
#pragma once

#include <cstdint>

#include "index/sstree/tree_state.h"

namespace lodgekv::sstree {

template <class C>
class HeadWriter {
 public:
  explicit HeadWriter(TreeState<C>& tree) : tree_(tree) {}

  // Of a pair whose key is not in the leaf. False: nothing was done, since no slot beside the word
  // is free, or words may tear.
  bool Insert(Worker& worker, Leaf* leaf, Pair pair, uint8_t fingerprint);
  // Of the pair in the slot of that bit of the word. False: nothing was done, since it would leave
  // the last subnode empty.
  bool Remove(Worker& worker, Leaf* leaf, unsigned bit);

 private:
  template <class Publish>
  void Commit(Worker& worker, Leaf* leaf, uint64_t valid, Publish publish);

  TreeState<C>& tree_;
};

}  // namespace lodgekv::sstree
