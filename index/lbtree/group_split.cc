// Splits in a group (group_commit.cc): any number of leaves, side by side, under the group's two
// fences. A leaf may be split off more than once; what was split off is split again in place, since
// nothing leads there yet.
//
//  step                                          after a crash           recovery
//  1  the new leaves, whole; in the leaf that    nothing leads to the    marks free the new leaves
//     splits the sibling word and the headers    new leaves; unused
//     of blocks 2 to m that alt does not use;    words hold anything
//     fence
//  2  word 0 of that leaf's first header: what   the leaf, or all that   nothing
//     moved does not count, alt is turned over;  it was split into
//     fence
//
// Until step 2 is durable the slots of what moved count: nothing is written there. A pair that
// would need one of them waits for the next pass, for which the leaf's lock is kept: so nobody else
// can take the place, and there are never more splits than puts. An atomic batch has a spare leaf
// for each of them.
#include <utility>

#include "index/lbtree/group.h"
#include "index/lbtree/split_work.h"
#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

// For the pair of `leaf`'s place, in a slot that does not count and is not going to.
template <class C>
bool LbTree<C>::HasRoom(const GroupLeaf& leaf) const {
  Header header = leaf.header;
  if (leaf.locked.place.found()) header.Clear(uint32_t{1} << leaf.locked.place.slot);
  return (UsableSlots() & ~header.slots() & ~leaf.committed) != 0;
}

// kJoined: there is room in `*leaf`, which may be another leaf now, or the pair's value can change
// in its slot.
template <class C>
typename LbTree<C>::Joining LbTree<C>::MakeRoom(Group& group, const Key& key, GroupLeaf** leaf) {
  GroupLeaf& full = **leaf;
  if (HasRoom(full)) return Joining::kJoined;
  if (full.locked.place.found() && !full.touched()) return Joining::kJoined;
  GroupLeaf& held = full.new_leaf != nullptr ? *full.held : full;
  const bool was_split = full.new_leaf == nullptr && full.right != nullptr;
  if (was_split) full.awaited = true;
  bool splits = !was_split && !full.locked.place.found();
  for (unsigned b = 0; b < blocks_ && splits; ++b) {
    const Header header = b == full.block ? full.header : HeaderOf(full.locked.leaf, b);
    splits = header.slots() == UsableSlots();
  }
  if (!splits) return Joining::kLater;
  const Joining split = SplitInGroup(group, key, full);
  if (split != Joining::kJoined) return split;
  *leaf = LeafInGroup(group, held, key);
  if (*leaf != nullptr && HasRoom(**leaf)) return Joining::kJoined;
  held.awaited = true;
  return Joining::kLater;
}

template <class C>
typename LbTree<C>::Joining LbTree<C>::SplitInGroup(Group& group, const Key& key, GroupLeaf& leaf) {
  if (group.new_leaves.size() == Group::kMostLeaves) return Joining::kLater;
  Worker& worker = workers_.Current();
  SplitWork work;
  work.in_group = true;
  work.left = leaf.locked.leaf;
  work.alt = AltOf(work.left);
  work.right = TakeLeaf(worker);
  if (work.right == 0) return Joining::kAlone;
  LoadHeaders(&work);
  work.left_headers[leaf.block] = leaf.header;
  bool divided;
  {
    const EpochGuard guard;
    divided = Divide(key, BoundsInGroup(leaf, key), &work);
  }
  if (!divided) {
    leaves_.Free(work.right);
    return Joining::kAlone;
  }
  group.new_leaves.push_back({LeafAt(work.right), work.separator, nullptr});
  if (leaf.new_leaf != nullptr) {
    StoreRightLeaf(work);
    StageNewLeaf(work, &group.new_leaves.back(), &leaf);
  } else {
    if (!parameters_.logless_split) WriteLeafAside(work);
    StoreRightLeaf(work);
    StageHeldLeaf(&work, &group.new_leaves.back(), &leaf);
  }
  group.changes = true;
  group.fences_first |= !medium_.Canary("lbtree.group.split_not_fenced");
  worker.counters.Add(WorkerCounters::kLeafSplits);
  return Joining::kJoined;
}

// What the leaf will cover when the group is committed.
template <class C>
typename LbTree<C>::Bounds LbTree<C>::BoundsInGroup(const GroupLeaf& leaf, const Key& key) const {
  Bounds bounds = BoundsOf(key);
  if (leaf.new_leaf == nullptr) return bounds;
  bounds.low = leaf.new_leaf->low;
  if (leaf.new_leaf->next != nullptr) {
    bounds.high = leaf.new_leaf->next->low;
    bounds.bounded = true;
  }
  return bounds;
}

// From here on the change of its first header's word 0 is the leaf's commit. What the group stored
// in another block counts by the header that alt will make active.
template <class C>
void LbTree<C>::StageHeldLeaf(SplitWork* work, NewLeaf* right, GroupLeaf* leaf) {
  leaf->lines_to_flush |= StoreLeftLeaf(work);
  if (medium_.Canary("lbtree.group.sibling_not_flushed")) {
    leaf->lines_to_flush &= ~LeafLine(0, kBlockLines - 1);
  }
  if (leaf->block != 0) {
    if (leaf->staged) leaf->lines_to_flush |= LeafLine(leaf->block, leaf->header_line);
    leaf->staged = false;
    leaf->committed = HeaderOf(work->left, 0).slots();
  }
  if (medium_.Canary("lbtree.group.reuse_at_once")) leaf->committed = 0;
  leaf->block = leaf->header_line = 0;
  leaf->words = work->left[0].header;
  leaf->header = work->left_headers[0];
  leaf->right = right;
}

template <class C>
void LbTree<C>::StageNewLeaf(const SplitWork& work, NewLeaf* right, GroupLeaf* leaf) {
  for (unsigned b = 0; b < blocks_; ++b) {
    medium_.Store(work.left[b].header[0], work.left_headers[b].words[0]);
  }
  if (!medium_.Canary("lbtree.group.new_sibling_stays")) {
    medium_.Store(work.left[0].tail[0], CheckedWord(work.right));
  }
  right->next = leaf->new_leaf->next;
  leaf->new_leaf->next = right;
}

// Of a new leaf; all of it is flushed in the end.
template <class C>
void LbTree<C>::StoreNewHeader(const GroupLeaf& leaf) {
  if (leaf.new_leaf == nullptr) return;
  medium_.Store(leaf.words[1], leaf.header.words[1]);
  medium_.Store(leaf.words[0], leaf.header.words[0]);
}

// From right to left: until the last one is done readers of all of them wait at the leaf that was
// split.
template <class C>
void LbTree<C>::PublishNewLeaves(GroupLeaf& leaf) {
  NewLeaf* last = nullptr;
  while (leaf.right != nullptr) {
    NewLeaf* next = std::exchange(leaf.right, leaf.right->next);
    next->next = std::exchange(last, next);
  }
  for (; last != nullptr; last = last->next) {
    const Key low = C::KeyOf(last->low);
    auto* parent = tree_.LockParent(low);
    const typename Inner::Child child{last->low, last->leaf};  // the group gives it up
    tree_.InsertAndUnlock(parent, low, {&child, 1});
    LODGEKV_CRASH_POINT(medium_, "lbtree.group_split.4");
  }
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
