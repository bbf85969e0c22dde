// Divides a full leaf in two: decides what stays and what moves, and stores it where nothing reads
// it yet. The caller commits: a split by itself (leaf_splitter.h), or a group (group_splitter.h).
//
// INVARIANT: until the commit no valid word has changed, and nothing refers to the new leaf.
//
// Thread-safe for different leaves; the caller holds the left leaf's lock.
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
