// Splits in a group; their crash table: README.md, Split in a group.
#include <utility>

#include "index/lbtree/group_splitter.h"
#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

// Whether `leaf` has a slot for the pair of its place: one that is not valid until the commit, and
// that no other pair has after it.
template <class C>
bool GroupSplitter<C>::HasRoom(const GroupLeaf<C>& leaf) const {
  Header header = leaf.header;
  if (leaf.locked.place.found()) header.Clear(uint32_t{1} << leaf.locked.place.slot);
  return (tree_.usable_slots & ~header.slots() & ~leaf.committed) != 0;
}

// kJoined: there is room in `*leaf`, which may be another leaf now, or the pair's value can change
// in its slot.
template <class C>
Joining GroupSplitter<C>::MakeRoom(const Key& key, GroupLeaf<C>** leaf) {
  GroupLeaf<C>& full = **leaf;
  if (HasRoom(full)) return Joining::kJoined;
  if (full.locked.place.found() && !full.touched()) return Joining::kJoined;
  GroupLeaf<C>& held = full.new_leaf != nullptr ? *full.held : full;
  const bool was_split = full.new_leaf == nullptr && full.right != nullptr;
  if (was_split) full.awaited = true;
  bool splits = !was_split && !full.locked.place.found();
  for (unsigned b = 0; b < tree_.blocks && splits; ++b) {
    const Header header = b == full.block ? full.header : HeaderOf(full.locked.leaf, b);
    splits = header.slots() == tree_.usable_slots;
  }
  if (!splits) return Joining::kLater;
  const Joining split = Split(key, full);
  if (split != Joining::kJoined) return split;
  *leaf = leaves_.LeafFor(held, key);
  if (*leaf != nullptr && HasRoom(**leaf)) return Joining::kJoined;
  held.awaited = true;
  return Joining::kLater;
}

template <class C>
Joining GroupSplitter<C>::Split(const Key& key, GroupLeaf<C>& leaf) {
  if (group_.new_leaves.size() == Group<C>::kMostLeaves) return Joining::kLater;
  Worker& worker = tree_.workers.Current();
  SplitWork<C> work;
  work.in_group = true;
  work.left = leaf.locked.leaf;
  work.alt = AltOf(work.left);
  work.right = tree_.space.Take(worker.spare_leaves);
  if (work.right == 0) return Joining::kAlone;
  divider_.LoadHeaders(&work);
  work.left_headers[leaf.block] = leaf.header;
  bool divided;
  {
    const EpochGuard guard;
    divided = divider_.Divide(key, BoundsIn(leaf, key), &work);
  }
  if (!divided) {
    tree_.leaves.Free(work.right);
    return Joining::kAlone;
  }
  group_.new_leaves.push_back({tree_.LeafAt(work.right), work.separator, nullptr});
  if (leaf.new_leaf != nullptr) {
    divider_.StoreRightLeaf(work);
    StageNewLeaf(work, &group_.new_leaves.back(), &leaf);
  } else {
    if (!tree_.parameters.logless_split) divider_.PersistLeafAside(work);
    divider_.StoreRightLeaf(work);
    StageHeldLeaf(&work, &group_.new_leaves.back(), &leaf);
  }
  group_.changes = true;
  group_.fences_first |= !tree_.medium.Canary("lbtree.group.split_not_fenced");
  worker.counters.Add(WorkerCounters::kLeafSplits);
  return Joining::kJoined;
}

// The range that the leaf will cover after the group's commit.
template <class C>
typename TreeState<C>::Bounds GroupSplitter<C>::BoundsIn(const GroupLeaf<C>& leaf,
                                                         const Key& key) const {
  typename TreeState<C>::Bounds bounds = divider_.BoundsOf(key);
  if (leaf.new_leaf == nullptr) return bounds;
  bounds.low = leaf.new_leaf->low;
  if (leaf.new_leaf->next != nullptr) {
    bounds.high = leaf.new_leaf->next->low;
    bounds.bounded = true;
  }
  return bounds;
}

// From here on the change of its first header's word 0 is the leaf's commit. What the group stored
// in another block becomes valid with the header that alt will activate.
template <class C>
void GroupSplitter<C>::StageHeldLeaf(SplitWork<C>* work, NewLeaf<C>* right, GroupLeaf<C>* leaf) {
  leaf->lines_to_flush |= divider_.StoreLeftLeaf(work);
  if (tree_.medium.Canary("lbtree.group.sibling_not_flushed")) {
    leaf->lines_to_flush &= ~LeafLine(0, kBlockLines - 1);
  }
  if (leaf->block != 0) {
    if (leaf->staged) leaf->lines_to_flush |= LeafLine(leaf->block, leaf->header_line);
    leaf->staged = false;
    leaf->committed = HeaderOf(work->left, 0).slots();
  }
  if (tree_.medium.Canary("lbtree.group.reuse_at_once")) leaf->committed = 0;
  leaf->block = leaf->header_line = 0;
  leaf->words = work->left[0].header;
  leaf->header = work->left_headers[0];
  leaf->right = right;
}

template <class C>
void GroupSplitter<C>::StageNewLeaf(const SplitWork<C>& work, NewLeaf<C>* right,
                                    GroupLeaf<C>* leaf) {
  for (unsigned b = 0; b < tree_.blocks; ++b) {
    tree_.medium.Store(work.left[b].header[0], work.left_headers[b].words[0]);
  }
  if (!tree_.medium.Canary("lbtree.group.new_sibling_stays")) {
    tree_.medium.Store(work.left[0].tail[0], CheckedWord(work.right));
  }
  right->next = leaf->new_leaf->next;
  leaf->new_leaf->next = right;
}

// For a new leaf; all of it is flushed in the end.
template <class C>
void GroupSplitter<C>::StoreNewHeader(const GroupLeaf<C>& leaf) {
  if (leaf.new_leaf == nullptr) return;
  tree_.medium.Store(leaf.words[1], leaf.header.words[1]);
  tree_.medium.Store(leaf.words[0], leaf.header.words[0]);
}

// From right to left: until the last one is done, readers of all of them wait at the leaf that was
// split.
template <class C>
void GroupSplitter<C>::PublishNewLeaves(GroupLeaf<C>& leaf) {
  NewLeaf<C>* last = nullptr;
  while (leaf.right != nullptr) {
    NewLeaf<C>* next = std::exchange(leaf.right, leaf.right->next);
    next->next = std::exchange(last, next);
  }
  for (; last != nullptr; last = last->next) {
    const Key low = C::KeyOf(last->low);
    auto* parent = tree_.inner.LockParent(low);
    const typename TreeState<C>::Inner::Child child{last->low,
                                                    last->leaf};  // the group releases it
    tree_.inner.InsertAndUnlock(parent, low, {&child, 1});
    LODGEKV_CRASH_POINT(tree_.medium, "lbtree.group_split.4");
  }
}

template class GroupSplitter<Fixed64Codec>;
template class GroupSplitter<BytesCodec>;

}  // namespace lodgekv::lbtree
