// The entry of a split; its crash table: README.md, Split.
#include "index/tlbtree/split_entry.h"

#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"
#include "index/tlbtree/root_entry.h"

namespace lodgekv::tlbtree {

// Not while roots are still to be examined when they are touched first.
template <class C>
bool SplitEntry<C>::LockAnchor(const Key& key, bool near) {
  if (!tree_.parameters.split_entries || tree_.touch.active()) return false;
  AnchorPlace place;
  {
    const EpochGuard guard;
    const Target<C> target{&key};
    const bool sound =
        near ? descent_.NearAnchor(target, &place) : descent_.ToAnchor(target, &place);
    if (!sound) return false;
  }
  if (place.view.root.height == 1) return false;
  root_ = tree_.NodeAt(place.view.root.node);
  lock_ = &tree_.locks.Of(tree_.AnchorAt(place.offset));
  return lock_->TryUpgrade(place.snapshot);
}

// A root that lists the leaf as the key's is that of the leaf's sub-index.
template <class C>
auto SplitEntry<C>::StageInRoot(const Key& key, const Node* leaf, const LinkTo& right) -> Staging {
  state_ = NodeState(root_->state.LoadRelaxed());
  unsigned place;
  {
    const TextGuard<C> guard;
    place = tree_.search.template ChildPlace<SearchByPointer>(root_, state_, Target<C>{&key});
  }
  const pmem::Offset child = place == 0
                                 ? NodeOf(root_->leftmost.LoadRelaxed())
                                 : LoadLink(root_->children[state_.SlotAt(place - 1)]).node();
  if (child != tree_.pool.OffsetOf(leaf)) return Staging::kNotHere;
  if (state_.count() >= tree_.parameters.node_slots) return Staging::kNot;
  (void)StageEntry(tree_, root_, right, place, &state_);
  return Staging::kDone;
}

template <class C>
auto SplitEntry<C>::StageIn(const Key& key, bool near, const Node* leaf, const LinkTo& right)
    -> Staging {
  if (!LockAnchor(key, near)) return Staging::kNot;
  const Staging staging = StageInRoot(key, leaf, right);
  if (staging != Staging::kDone) lock_->Unlock();
  return staging;
}

template <class C>
bool SplitEntry<C>::Stage(const Key& key, const Node* leaf, const LinkTo& right) {
  Staging staging = StageIn(key, /*near=*/true, leaf, right);
  if (staging == Staging::kNotHere) staging = StageIn(key, /*near=*/false, leaf, right);
  if (staging != Staging::kDone) return false;
  if (tree_.medium.Canary("tlbtree.split.entry_first")) StoreState();
  return true;
}

template <class C>
void SplitEntry<C>::Commit() {
  if (!tree_.medium.failed()) StoreState();
  lock_->Unlock();
}

// What it refers to is durable by a Fence, so nothing has to be waited for on a file either.
// Readers may have seen the entry before: from here on nobody goes by what they saw before.
template <class C>
void SplitEntry<C>::StoreState() {
  pmem::Medium& medium = tree_.medium;
  medium.Store(root_->state, state_.word());
  medium.FlushLine(&root_->state);
  LODGEKV_CRASH_POINT(medium, "tlbtree.split.4");
  lock_->BeginPublish();
  lock_->EndPublish();
  tree_.workers.Current().counters.Add(WorkerCounters::kHelped);
}

template class SplitEntry<Fixed64Codec>;
template class SplitEntry<BytesCodec>;

}  // namespace lodgekv::tlbtree
