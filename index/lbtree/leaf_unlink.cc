// The unlinking of empty leaves; its crash table: README.md, Delete.
#include "index/lbtree/pair_remover.h"
#include "index/node/epoch.h"
#include "index/node/inner_tree_shrink.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

// Returns the left neighbour of the key's leaf according to the parents; if those change meanwhile
// it may be another leaf.
template <class C>
media::Block* PairRemover<C>::LeftNeighbour(const Key& key, uint64_t* snapshot) const {
  const EpochGuard guard;  // the leaf's lock alone does not keep the bound
  typename Inner::Place place;
  (void)tree_.inner.DescendToPlace(&key, Inner::Seek::kCovering, snapshot, &place);
  return tree_.inner.Descend(C::KeyOf(place.bounds.low), snapshot, Inner::Seek::kBefore);
}

// kCannot: it is the leftmost leaf. The leaf is locked; its left neighbour may share the lock.
template <class C>
auto PairRemover<C>::UnlinkLeaf(Worker& worker, const LockedLeaf& locked, const Key& key)
    -> Attempt {
  if (tree_.pool.OffsetOf(locked.leaf) ==
      (tree_.pool.engine_area()[media::kFirstLeaf].Load() & kCheckedMask)) {
    return Attempt::kCannot;
  }
  uint64_t snapshot;
  media::Block* left = LeftNeighbour(key, &snapshot);
  VersionLock& left_lock = tree_.locks.Of(left);
  const bool same_lock = &left_lock == locked.lock;
  if (!same_lock && !left_lock.TryUpgrade(snapshot)) return Attempt::kBusy;
  pmem::Word& sibling = left[0].tail[AltOf(left) ? 1 : 0];
  typename Inner::Node* parent;
  const bool removable =
      sibling.Load() == CheckedWord(tree_.pool.OffsetOf(locked.leaf)) &&
      tree_.inner.LockForRemoval(key, locked.leaf, Inner::Heir::kEither, &parent) == Attempt::kDone;
  if (removable) {
    tree_.medium.Store(sibling, locked.leaf[0].tail[AltOf(locked.leaf) ? 1 : 0].LoadRelaxed());
    tree_.medium.FlushLine(&sibling);
    LODGEKV_CRASH_POINT(tree_.medium, "lbtree.unlink.1");
    tree_.medium.Fence();
    locked.lock->BeginPublish();  // until here readers see the leaf with its pair
    tree_.inner.RemoveAndUnlock(parent, key);
    locked.lock->EndPublish();
    LODGEKV_CRASH_POINT(tree_.medium, "lbtree.unlink.2");
    const bool stays = tree_.medium.failed() || tree_.medium.Canary("lbtree.unlink.leaf_stays");
    if (!stays) tree_.leaves.Free(tree_.pool.OffsetOf(locked.leaf));
    worker.counters.Add(WorkerCounters::kUnlinkedLeaves);
    if (!tree_.inner.Shrink(key)) NoteEmptied(worker, key);
  }
  if (!same_lock) left_lock.Unlock();
  return removable ? Attempt::kDone : Attempt::kBusy;
}

// --- what was busy ---

// Only a few: beyond that, empty leaves stay until something is put there.
template <class C>
void PairRemover<C>::NoteEmptied(Worker& worker, const Key& key) {
  constexpr size_t kMost = 64;
  if (worker.emptied.size() < kMost) worker.emptied.push_back(C::TextOf(key));
}

// Called without locks.
template <class C>
void PairRemover<C>::UnlinkEmptied(Worker& worker) {
  std::vector<std::string> noted;
  noted.swap(worker.emptied);
  for (const std::string& text : noted) {
    const Key key = C::MakeKey(text);
    if (!UnlinkIfEmpty(worker, key) || !tree_.inner.Shrink(key)) NoteEmptied(worker, key);
  }
}

// False: the leaf is still empty, and was busy again.
template <class C>
bool PairRemover<C>::UnlinkIfEmpty(Worker& worker, const Key& key) {
  uint64_t snapshot;
  media::Block* leaf = tree_.inner.DescendForWrite(key, &snapshot);
  VersionLock& lock = tree_.locks.Of(leaf);
  if (!lock.TryUpgrade(snapshot)) return false;
  tree_.Touch(key);
  bool empty = true;
  for (unsigned b = 0; b < tree_.blocks; ++b) empty &= HeaderOf(leaf, b).slots() == 0;
  const bool stays = empty && UnlinkLeaf(worker, {leaf, &lock, {}}, key) == Attempt::kBusy;
  lock.Unlock();
  return !stays;
}

template class PairRemover<Fixed64Codec>;
template class PairRemover<BytesCodec>;

}  // namespace lodgekv::lbtree
