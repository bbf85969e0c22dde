// Removes pairs (LB+-Tree 3.1): one store of a header's word 0 clears the pair's bit. The last pair
// of a leaf is removed together with the leaf, by one store of the left neighbour's sibling word.
// The protocols are the two crash tables of Delete in README.md.
//
// The range of a removed leaf goes to its left neighbour, or, if it was the first child of its
// inner node, to its right one: leaves have no fence keys. A leaf that was emptied while a
// neighbour or its parents were busy is unlinked later, while empty, by the thread that emptied it.
//
// INVARIANT: the leftmost leaf is never unlinked, even if empty.
//
// Thread-safe for different leaves; Remove is for the holder of the leaf's lock, UnlinkEmptied for
// a thread without locks. Other locks are only tried.
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

  // The key must be there. Durable on return.
  void Remove(Worker& worker, const LockedLeaf& locked, const Key& key);
  // Unlinks the leaves that the thread has noted.
  void UnlinkEmptied(Worker& worker);

 private:
  media::Block* LeftNeighbour(const Key& key, uint64_t* snapshot) const;
  Attempt UnlinkLeaf(Worker& worker, const LockedLeaf& locked, const Key& key);
  void NoteEmptied(Worker& worker, const Key& key);
  bool UnlinkIfEmpty(Worker& worker, const Key& key);

  TreeState<C>& tree_;
};

}  // namespace lodgekv::lbtree
