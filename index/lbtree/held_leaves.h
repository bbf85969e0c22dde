// The leaves whose locks a group holds: how one is found, taken and let go.
//
// INVARIANT: who holds a lock only tries to get another one, and waits for no batch; who waits, for
// a leaf or for a batch, holds no lock. So waiting never forms a circle.
//
// One thread's own, as its group is.
#pragma once

#include "index/lbtree/group.h"
#include "index/lbtree/leaf_search.h"
#include "index/lbtree/tree_state.h"

namespace lodgekv::lbtree {

template <class C>
class HeldLeaves {
 public:
  using Key = typename C::Key;

  HeldLeaves(TreeState<C>& tree, Group<C>& group) : tree_(tree), search_(tree), group_(group) {}

  // Null: the key's leaf cannot be had without waiting, is in use under the lock of another, or has
  // no use for the key before the commit.
  GroupLeaf<C>* Join(const Key& key);
  // The held leaf, or the one of those split off it, that the key belongs to. Null: it takes
  // nothing more, or nothing in that block.
  GroupLeaf<C>* LeafFor(GroupLeaf<C>& held, const Key& key);
  // All but those that the next pass awaits.
  void LetGo();

 private:
  GroupLeaf<C>* Hold(media::Block* leaf, uint64_t snapshot, const Key& key);
  void Begin(const LockedLeaf& locked, const Key& key, GroupLeaf<C>* leaf) const;
  Place FindPlaceIn(const GroupLeaf<C>& leaf, const Key& key) const;

  TreeState<C>& tree_;
  const LeafSearch<C> search_;
  Group<C>& group_;
};

}  // namespace lodgekv::lbtree
