// Splits in a group; their crash table: README.md, Split in a group.
#include <algorithm>
#include <bit>
#include <utility>

#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"
#include "index/sstree/write_group.h"

namespace lodgekv::sstree {

// Null: the key stays in the leaf.
template <class C>
auto WriteGroup<C>::SplitLeafFor(const Held& held, const Key& key) -> SplitLeaf* {
  SplitLeaf* found = nullptr;
  for (SplitLeaf* at = held.first; at != nullptr; at = at->next) {
    if (!LeafSplitter<C>::GoesRight(at->right, key)) break;
    found = at;
  }
  return found;
}

// What the operation needs is valid until the commit. After a split the leaf's lock is kept.
template <class C>
Joining WriteGroup<C>::Await() {
  held_->awaited |= held_->first != nullptr;
  return Joining::kLater;
}

template <class C>
Joining WriteGroup<C>::RoomInSplitLeaf(const Key& key) {
  const NewLeaf<C>& right = target_->right;
  if (right.slots != tree_.usable_slots()) return Joining::kJoined;
  if (target_->next != nullptr) return Joining::kLater;
  const Pair greatest = splitter_.GreatestOf(*right.subnode, right.slots);
  if (!splitter_.IsBelow(greatest, key)) return Joining::kLater;
  return BeginAppend(key, greatest, target_);
}

// The leaf is full. What it lets go of has to be in the new leaf: recovery takes anything else for
// damage.
template <class C>
Joining WriteGroup<C>::Split(const Key& key) {
  if ((change_->old & ~change_->valid) != 0) return Await();
  typename LeafSplitter<C>::Entries entries;
  splitter_.Sort(*change_, &entries);
  if (held_->first == nullptr && splitter_.IsBelow(entries.greatest(), key)) {
    return BeginAppend(key, entries.greatest(), nullptr);
  }
  if (held_->first != nullptr || split_leaves_.size() == kMostLeaves) return Await();
  NewLeaf<C> right;
  if (splitter_.Divide(tree_.workers.Current(), key, entries, change_, &right) != Outcome::kOk) {
    return Joining::kAlone;
  }
  changes_ = true;
  SplitLeaf& split = split_leaves_.emplace_back();
  split.right = right;
  held_->first = &split;
  if (!LeafSplitter<C>::GoesRight(right, key)) return Await();
  target_ = &split;
  return Joining::kJoined;
}

// Makes sure that Put can begin a leaf for the key, which is above `greatest` and all others of the
// leaf, after `after` if that is not null.
template <class C>
Joining WriteGroup<C>::BeginAppend(const Key& key, Pair greatest, const SplitLeaf* after) {
  if (split_leaves_.size() == kMostLeaves) return Joining::kLater;
  if constexpr (C::kRecords) {
    // Only a damaged record's key can be elsewhere.
    const EpochGuard guard;
    const auto bounds = splitter_.BoundsOf(key);
    const auto low = after == nullptr ? bounds.low : after->right.low;
    if (!tree_.codec.KeyInRange(greatest, low, bounds.bounded, bounds.high)) {
      return Joining::kAlone;
    }
  }
  if (space_ == 0) space_ = tree_.space.Take(tree_.workers.Current().spare);
  if (space_ == 0) return Joining::kAlone;
  greatest_ = greatest;
  appends_ = true;
  return Joining::kJoined;
}

template <class C>
void WriteGroup<C>::Append(Pair pair) {
  SplitLeaf& split = split_leaves_.emplace_back();
  split.right.subnode = tree_.SubnodeAt(std::exchange(space_, 0));
  split.right.low = tree_.codec.Between(greatest_, pair, tree_.texts);
  (target_ == nullptr ? held_->first : target_->next) = &split;
  target_ = &split;
  appends_ = false;
  tree_.workers.Current().counters.Add(WorkerCounters::kAppendedLeaves);
}

// What was written to them is durable.
template <class C>
void WriteGroup<C>::CommitSplitLeaves() {
  for (const SplitLeaf& split : split_leaves_) splitter_.CommitNew(split.right);
  LODGEKV_CRASH_POINT(tree_.medium, "sstree.group_split.1");
  tree_.medium.OrderStores();
  LODGEKV_CRASH_POINT(tree_.medium, "sstree.group_split.2");
}

// From right to left: until the last one is done, readers of all of them wait at the leaf that was
// split, or find there what has moved; writers wait at the new leaves.
template <class C>
void WriteGroup<C>::PublishSplitLeaves(Held& held) {
  SplitLeaf* last = nullptr;
  while (held.first != nullptr) {
    SplitLeaf* next = std::exchange(held.first, held.first->next);
    next->next = std::exchange(last, next);
  }
  for (SplitLeaf* split = last; split != nullptr; split = split->next) {
    split->published = splitter_.PublishNew(split->right);
    LODGEKV_CRASH_POINT(tree_.medium, "sstree.group_split.3");
  }
  splitter_.PublishOld(tree_.workers.Current(), &held.change);
  for (; last != nullptr; last = last->next) last->published->lock.Unlock();
}

// A subnode that was to begin a leaf: there was no space for the pair's record.
template <class C>
void WriteGroup<C>::FreeUnused() {
  if (space_ != 0) tree_.subnodes.Free(std::exchange(space_, 0));
  split_leaves_.clear();
}

template class WriteGroup<Fixed64Codec>;
template class WriteGroup<BytesCodec>;

}  // namespace lodgekv::sstree
