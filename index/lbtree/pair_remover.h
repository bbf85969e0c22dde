// Removes pairs (LB+-Tree 3.1): one store of a header's word 0 clears the pair's bit. The last pair
// of a leaf goes with the leaf: then the one store is that of the left neighbour's sibling word.
// The protocols are the two crash tables of Delete in README.md.
//
// The range of a leaf that goes is its left neighbour's from then on, or, if it was the first of
// its inner node, its right one's: leaves have no fences of their own. A leaf that was emptied
// while a neighbour or its parents were busy is unlinked later, empty as it is, by who emptied it.
//
// INVARIANT: the leftmost leaf stays, empty, until something is put there.
//
// Thread-safe for different leaves; Remove belongs to the holder of the leaf's lock, UnlinkEmptied
// to who holds none. Other locks are only tried.
#pragma once

#include "index/lbtree/tree_state.h"

namespace lodgekv::lbtree {

template <class C>
class PairRemover {
 public:
  using Key = typename C::Key;
  using Inner = typename TreeState<C>::Inner;
  using Attempt = typename Inner::Attempt;

  explicit PairRemover(TreeState<C>& tree) : tree_(tree) {}

  // Of a key that is there. Durable on return.
  void Remove(Worker& worker, const LockedLeaf& locked, const Key& key);
  // What the thread has noted.
  void UnlinkEmptied(Worker& worker);

 private:
  media::Block* LeftNeighbour(const Key& key, uint64_t* snapshot) const;
  Attempt UnlinkLeaf(Worker& worker, const LockedLeaf& locked, const Key& key);
  void NoteEmptied(Worker& worker, const Key& key);
  bool UnlinkIfEmpty(Worker& worker, const Key& key);

  TreeState<C>& tree_;
};

}  // namespace lodgekv::lbtree
