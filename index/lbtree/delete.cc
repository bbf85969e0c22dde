// Delete (LB+-Tree 3.1): one store of a header's word 0. The last pair of a leaf goes with the
// leaf: then the one store is that of the left neighbour's sibling word.
//
//  step                                          after a crash           recovery
//  1  the bit in the header; fence               the pair or not         nothing
//
//  1  the left neighbour's active sibling word   the leaf with its pair, the mark frees leaf and
//     leads past the leaf; fence                 or neither              record
//
// The leftmost leaf stays, empty, until something is put there. The range of a leaf that goes is
// its left neighbour's from then on, or, if it was the first of its inner node, its right one's:
// leaves have no fences of their own. A leaf that was emptied while a neighbour or its parents were
// busy is unlinked later, empty as it is, by who emptied it (of many, the first 64).
#include <bit>

#include "index/lbtree/lbtree.h"
#include "index/node/epoch.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

// The key's place is known.
template <class C>
void LbTree<C>::Remove(Worker& worker, const Locked& locked, const Key& key) {
  const auto slot = static_cast<unsigned>(locked.place.slot);
  worker.counters.Add(WorkerCounters::kDeletes);
  const unsigned block = locked.place.block;
  const bool last =
      parameters_.unlink_leaves && HoldsOnePair(locked.leaf, block, HeaderOf(locked.leaf, block));
  const uint64_t old_value = SlotPair(locked.leaf[block], slot).value;
  const Attempt unlinked = last ? UnlinkLeaf(worker, locked, key) : Attempt::kCannot;
  if (unlinked == Attempt::kBusy) NoteEmptied(worker, key);
  if (unlinked != Attempt::kDone) {
    media::Word* words = HeaderWords(locked.leaf, block, AltOf(locked.leaf));
    Header header = LoadHeader(words);
    header.Clear(uint32_t{1} << slot);
    BeginCommit(locked, words[0]);
    medium_.Store(words[0], header.words[0]);
    medium_.FlushLine(words);
    LODGEKV_CRASH_POINT(medium_, "lbtree.delete.1");
    medium_.Fence();
    BeginPublish(locked);
    EndPublish(locked);
    LODGEKV_CRASH_POINT(medium_, "lbtree.delete.2");
  }
  RetireRecord(worker, old_value);
}

// `header` is that of `block`, or is going to be.
template <class C>
bool LbTree<C>::HoldsOnePair(const media::Block* leaf, unsigned block, const Header& header) const {
  int pairs = std::popcount(header.slots());
  for (unsigned b = 0; b < blocks_; ++b) {
    if (b != block) pairs += std::popcount(HeaderOf(leaf, b).slots());
  }
  return pairs == 1;
}

// Of the leaf of `key`, as its parents say: if they change meanwhile it may be another leaf.
template <class C>
media::Block* LbTree<C>::LeftNeighbour(const Key& key, uint64_t* snapshot) const {
  const EpochGuard guard;  // the bound is not the leaf's alone
  typename Inner::Place place;
  (void)tree_.DescendToPlace(&key, Inner::Seek::kCovering, snapshot, &place);
  return tree_.Descend(C::KeyOf(place.bounds.low), snapshot, Inner::Seek::kBefore);
}

// kCannot: it is the leftmost leaf. It is locked; its left neighbour's lock may be the same.
template <class C>
auto LbTree<C>::UnlinkLeaf(Worker& worker, const Locked& locked, const Key& key) -> Attempt {
  if (pool_.OffsetOf(locked.leaf) ==
      (pool_.engine_area()[media::kFirstLeaf].Load() & kCheckedMask)) {
    return Attempt::kCannot;
  }
  uint64_t snapshot;
  media::Block* left = LeftNeighbour(key, &snapshot);
  VersionLock& left_lock = locks_.Of(left);
  const bool same_lock = &left_lock == locked.lock;
  if (!same_lock && !left_lock.TryUpgrade(snapshot)) return Attempt::kBusy;
  pmem::Word& sibling = left[0].tail[AltOf(left) ? 1 : 0];
  typename Inner::Node* parent;
  const bool removable =
      sibling.Load() == CheckedWord(pool_.OffsetOf(locked.leaf)) &&
      tree_.LockForRemoval(key, locked.leaf, Inner::Heir::kEither, &parent) == Attempt::kDone;
  if (removable) {
    medium_.Store(sibling, locked.leaf[0].tail[AltOf(locked.leaf) ? 1 : 0].LoadRelaxed());
    medium_.FlushLine(&sibling);
    LODGEKV_CRASH_POINT(medium_, "lbtree.unlink.1");
    medium_.Fence();
    locked.lock->BeginPublish();  // readers see the leaf with its pair until here
    tree_.RemoveAndUnlock(parent, key);
    locked.lock->EndPublish();
    LODGEKV_CRASH_POINT(medium_, "lbtree.unlink.2");
    const bool stays = medium_.failed() || medium_.Canary("lbtree.unlink.leaf_stays");
    if (!stays) leaves_.Free(pool_.OffsetOf(locked.leaf));
    worker.counters.Add(WorkerCounters::kUnlinkedLeaves);
    if (!tree_.Shrink(key)) NoteEmptied(worker, key);
  }
  if (!same_lock) left_lock.Unlock();
  return removable ? Attempt::kDone : Attempt::kBusy;
}

// --- what was busy ---

// A few: where a thread meets more it leaves them, empty, to who puts something there.
template <class C>
void LbTree<C>::NoteEmptied(Worker& worker, const Key& key) {
  constexpr size_t kMost = 64;
  if (worker.emptied.size() < kMost) worker.emptied.push_back(C::TextOf(key));
}

// Called with no lock held.
template <class C>
void LbTree<C>::UnlinkEmptied(Worker& worker) {
  std::vector<std::string> noted;
  noted.swap(worker.emptied);
  for (const std::string& text : noted) {
    const Key key = C::MakeKey(text);
    if (!UnlinkIfEmpty(worker, key) || !tree_.Shrink(key)) NoteEmptied(worker, key);
  }
}

// False: it is, and was busy again.
template <class C>
bool LbTree<C>::UnlinkIfEmpty(Worker& worker, const Key& key) {
  uint64_t snapshot;
  media::Block* leaf = tree_.DescendForWrite(key, &snapshot);
  VersionLock& lock = locks_.Of(leaf);
  if (!lock.TryUpgrade(snapshot)) return false;
  bool empty = true;
  for (unsigned b = 0; b < blocks_; ++b) empty &= HeaderOf(leaf, b).slots() == 0;
  const bool stays = empty && UnlinkLeaf(worker, {leaf, &lock, {}}, key) == Attempt::kBusy;
  lock.Unlock();
  return !stays;
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
