// Drops leaves that have no pair any more: the head gets the free tag, by one store, and the
// parents forget the leaf. The protocol is Drop's crash table in README.md.
//
// The range of a removed leaf goes to its left neighbour, or, if it was the first child of its
// inner node, to its right one: leaves have no fence keys. A leaf that was emptied while its
// parents were busy stays in DRAM without a head, and is removed later, while empty, by the thread
// that emptied it.
//
// INVARIANT: a head gets the free tag only as the one subnode of its leaf.
//
// Thread-safe for different leaves; DropWithLast is for the holder of the leaf's lock, DropEmptied
// for a thread without locks. Other locks are only tried.
#pragma once

#include "index/sstree/leaf_writer.h"
#include "index/sstree/tree_state.h"

namespace lodgekv::sstree {

template <class C>
class LeafDropper {
 public:
  using Key = typename C::Key;
  using Inner = typename TreeState<C>::Inner;
  using Attempt = typename Inner::Attempt;

  explicit LeafDropper(TreeState<C>& tree) : tree_(tree), writer_(tree) {}

  // True: the leaf had one pair and one subnode, and is gone, durably.
  bool DropWithLast(Worker& worker, Leaf* leaf, const Key& key);
  // The key's leaf has become empty.
  void Note(Worker& worker, const Key& key) const;
  // Drops the leaves that the thread has noted, and frees those in DRAM that it has removed.
  void DropEmptied(Worker& worker);

 private:
  void DropHead(Worker& worker, Leaf* leaf);
  void Remove(Worker& worker, Leaf* leaf, const Key& key);
  bool DropIfEmpty(Worker& worker, const Key& key);
  void ReclaimOverflow(Worker& worker, Leaf* leaf);

  TreeState<C>& tree_;
  LeafWriter<C> writer_;
};

}  // namespace lodgekv::sstree
