// Makes room in a group: any number of full leaves split, side by side, under the group's two
// fences. Several leaves may be split off one leaf; a leaf that was split off is split again in
// place, since nothing refers to it yet. The protocol is the crash table "Split in a group" in
// README.md.
//
// INVARIANT: until the commit is durable the slots of moved pairs stay valid, and nothing is
// written there. A pair that would need one of them waits for the next pass, which keeps the leaf's
// lock: so nobody else can take the slot, and there are never more splits than puts. An atomic
// batch has a spare leaf for each of them.
//
// Used by one thread, like its group.
#pragma once

#include "index/lbtree/group.h"
#include "index/lbtree/held_leaves.h"
#include "index/lbtree/leaf_divider.h"
#include "index/lbtree/tree_state.h"
#include "index/node/write_tree.h"

namespace lodgekv::lbtree {

template <class C>
class GroupSplitter {
 public:
  using Key = typename C::Key;
  using Bounds = typename TreeState<C>::Bounds;

  GroupSplitter(TreeState<C>& tree, Group<C>& group, HeldLeaves<C>& leaves)
      : tree_(tree), divider_(tree), group_(group), leaves_(leaves) {}

  bool HasRoom(const GroupLeaf<C>& leaf) const;
  Joining MakeRoom(const Key& key, GroupLeaf<C>** leaf);
  void StoreNewHeader(const GroupLeaf<C>& leaf);
  void PublishNewLeaves(GroupLeaf<C>& leaf);

 private:
  Joining Split(const Key& key, GroupLeaf<C>& leaf);
  Bounds BoundsIn(const GroupLeaf<C>& leaf, const Key& key) const;
  void StageHeldLeaf(SplitWork<C>* work, NewLeaf<C>* right, GroupLeaf<C>* leaf);
  void StageNewLeaf(const SplitWork<C>& work, NewLeaf<C>* right, GroupLeaf<C>* leaf);

  TreeState<C>& tree_;
  LeafDivider<C> divider_;
  Group<C>& group_;
  HeldLeaves<C>& leaves_;
};

}  // namespace lodgekv::lbtree
