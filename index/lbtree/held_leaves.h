// The leaves whose locks a group holds: how they are found, locked and released.
//
// INVARIANT: a thread that holds a lock only tries to get others, and waits for no batch; a thread
// that waits, for a leaf or for a batch, holds no lock. So there is no deadlock.
//
// Used by one thread, like its group.
#pragma once

#include "index/lbtree/group.h"
#include "index/lbtree/leaf_search.h"
#include "index/lbtree/tree_state.h"
#include "index/node/write_tree.h"

namespace lodgekv::lbtree {

template <class C>
class HeldLeaves {
 public:
  using Key = typename C::Key;
  using Seen = SeenLeaf<media::Block>;

  HeldLeaves(TreeState<C>& tree, Group<C>& group) : tree_(tree), search_(tree), group_(group) {}

  // Null: the key's leaf cannot be locked without waiting, is covered by another held leaf's lock,
  // or cannot be used for the key before the commit.
  GroupLeaf<C>* Join(const Key& key, Seen seen);
  // The held leaf, or one of those split off it, to which the key belongs. Null: it can take no
  // more changes, or none in that block.
  GroupLeaf<C>* LeafFor(GroupLeaf<C>& held, const Key& key);
  // Releases all but those that the next pass needs.
  void LetGo();

 private:
  GroupLeaf<C>* FindHeld(const VersionLock& lock);
  GroupLeaf<C>* Hold(const LockedLeaf& locked, const Key& key);
  void Begin(const LockedLeaf& locked, const Key& key, GroupLeaf<C>* leaf) const;
  Place FindPlaceIn(const GroupLeaf<C>& leaf, const Key& key) const;

  TreeState<C>& tree_;
  const LeafSearch<C> search_;
  Group<C>& group_;
};

}  // namespace lodgekv::lbtree
