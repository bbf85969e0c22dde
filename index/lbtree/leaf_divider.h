// How a full leaf is divided in two: what stays, what moves, and what is stored of it where nobody
// looks yet. The commit is the caller's: a split by itself (leaf_splitter.h), or a group's
// (group_splitter.h).
//
// INVARIANT: until the commit no word that counts has changed, and nothing leads to the new leaf.
//
// Thread-safe for different leaves; calls belong to the holder of the left leaf's lock.
#pragma once

#include "index/lbtree/split_work.h"
#include "index/lbtree/tree_state.h"

namespace lodgekv::lbtree {

template <class C>
class LeafDivider {
 public:
  using Key = typename C::Key;
  using Separator = typename C::Separator;
  using Inner = typename TreeState<C>::Inner;
  using Bounds = typename TreeState<C>::Bounds;

  explicit LeafDivider(TreeState<C>& tree) : tree_(tree) {}

  void LoadHeaders(SplitWork<C>* work) const;
  Bounds BoundsOf(const Key& key) const;
  bool Divide(const Key& key, const Bounds& bounds, SplitWork<C>* work);

  // Neither flushes.
  void StoreRightLeaf(const SplitWork<C>& work);
  uint32_t StoreLeftLeaf(SplitWork<C>* work);
  // Durable on return.
  void PersistLeafAside(const SplitWork<C>& work);

 private:
  bool ChooseBorder(const Key& key, const Bounds& bounds, SplitWork<C>* work);
  static bool Divides(const Bounds& bounds, Separator separator);

  TreeState<C>& tree_;
};

}  // namespace lodgekv::lbtree
