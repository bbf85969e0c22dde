// The split of a leaf; its crash table: README.md, Split.
#include "index/sstree/leaf_split.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "index/node/epoch.h"
#include "index/node/pair_order.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::sstree {

template <class C>
void LeafSplitter<C>::Sort(const LeafChange& change, Entries* entries) const {
  using Entry = typename Entries::Entry;
  Entry gathered[kMaxLeafSlots];
  for (unsigned i = 0; i < change.subnodes; ++i) {
    const media::Subnode* subnode = search_.SubnodeOf(change, i);
    for (uint32_t slots = SlotsOf(change.valid, i); slots != 0; slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      gathered[entries->count++] = {SlotPair(*subnode, slot), i * kSubnodeSlots + slot};
    }
  }
  CopyInOrder(tree_.codec, std::span<const Entry>(gathered, entries->count), entries->at);
}

// The new leaf has one subnode, and room for one pair more. And one pair stays that is valid before
// the commit, too: until then the old leaf's least key must tell it from the new one.
template <class C>
unsigned LeafSplitter<C>::LeastThatStay(const LeafChange& change, const Entries& entries) const {
  const unsigned most = tree_.parameters.leaf_slots - 1;
  unsigned least = entries.count > most ? entries.count - most : 1;
  unsigned first = 0;
  while (first < entries.count && (change.old >> entries.at[first].bit & 1) == 0) ++first;
  const bool ignored = tree_.medium.Canary("sstree.group_split.none_stays");
  return ignored ? least : std::max(least, first + 1);
}

// At least `least` pairs stay. From the middle outwards: a damaged record may have any key.
template <class C>
bool LeafSplitter<C>::ChooseBorder(const Key& key, const Entries& entries, unsigned least,
                                   unsigned* stay, Separator* low) {
  const Bounds bounds = BoundsOf(key);
  const unsigned middle = std::max(entries.count / 2, least);
  for (unsigned away = 0; away < entries.count; ++away) {
    for (const int step : {1, -1}) {
      const int at = static_cast<int>(middle) + step * static_cast<int>(away);
      if (at < static_cast<int>(least) || at >= static_cast<int>(entries.count)) continue;
      *low = tree_.codec.Between(entries.at[at - 1].pair, entries.at[at].pair, tree_.texts);
      if (Divides(bounds, *low)) {
        *stay = static_cast<unsigned>(at);
        return true;
      }
      C::Discard(tree_.texts, *low);
    }
  }
  return false;
}

template <class C>
typename LeafSplitter<C>::Bounds LeafSplitter<C>::BoundsOf(const Key& key) const {
  if (!C::kRecords) return {};
  uint64_t snapshot;
  typename Inner::Place place;
  (void)tree_.inner.DescendToPlace(&key, Inner::Seek::kCovering, &snapshot, &place);
  return place.bounds;
}

template <class C>
bool LeafSplitter<C>::Divides(const Bounds& bounds, Separator separator) {
  return !C::kRecords || (C::Compare(separator, bounds.low) > 0 &&
                          (!bounds.bounded || C::Compare(separator, bounds.high) < 0));
}

template <class C>
bool LeafSplitter<C>::IsBelow(Pair pair, const Key& key) const {
  if constexpr (C::kRecords) {
    char scratch[8];
    return tree_.codec.KeyText(pair, scratch) < key.text;
  } else {
    return pair.key < key.word;
  }
}

template <class C>
Pair LeafSplitter<C>::GreatestOf(const media::Subnode& subnode, uint32_t slots) const {
  Pair greatest = SlotPair(subnode, static_cast<unsigned>(std::countr_zero(slots)));
  for (slots &= slots - 1; slots != 0; slots &= slots - 1) {
    const Pair pair = SlotPair(subnode, static_cast<unsigned>(std::countr_zero(slots)));
    if (tree_.codec.Less(greatest, pair)) greatest = pair;
  }
  return greatest;
}

template <class C>
void LeafSplitter<C>::AddToNew(NewLeaf<C>* right, Pair pair, uint8_t fingerprint) {
  const auto used = static_cast<unsigned>(std::popcount(right->slots));
  const unsigned slot = right->from_end ? tree_.parameters.leaf_slots - 1 - used : used;
  media::Slot& at = right->subnode->slots[slot];
  tree_.medium.StoreTwo(at.key, pair.key, at.value, pair.value);
  right->fingerprints[slot] = fingerprint;
  right->slots |= uint32_t{1} << slot;
  right->fences |= LineOfSlot(slot) != 0 || tree_.HasRecord(pair);
}

template <class C>
Outcome LeafSplitter<C>::Divide(Worker& worker, const Key& key, const Entries& entries,
                                LeafChange* change, NewLeaf<C>* right) {
  const EpochGuard guard;
  const unsigned least = LeastThatStay(*change, entries);
  unsigned stay;
  if (!ChooseBorder(key, entries, least, &stay, &right->low)) {
    return Outcome::kDataLoss;
  }
  const pmem::Offset offset = tree_.space.Take(worker.spare);
  if (offset == 0) {
    C::Discard(tree_.texts, right->low);
    return Outcome::kPoolFull;
  }
  right->subnode = tree_.SubnodeAt(offset);
  right->moved = true;
  for (unsigned i = stay; i < entries.count; ++i) {
    AddToNew(right, entries.at[i].pair, FingerprintOf(tree_.codec.HashOf(entries.at[i].pair)));
    writer_.Drop(change, entries.at[i].bit);
  }
  writer_.RenewFilter(change);
  worker.counters.Add(WorkerCounters::kLeafSplits);
  return Outcome::kOk;
}

// Begins a leaf for a pair above all of the leaf's: keys that ascend leave full leaves behind. The
// pair lies beside the word: one line and one fence.
template <class C>
Outcome LeafSplitter<C>::Append(Worker& worker, const Key& key, Pair greatest, Pair pair,
                                NewLeaf<C>* right) {
  const EpochGuard guard;
  right->low = tree_.codec.Between(greatest, pair, tree_.texts);
  if (!Divides(BoundsOf(key), right->low)) {
    C::Discard(tree_.texts, right->low);
    return Outcome::kDataLoss;
  }
  const pmem::Offset offset = tree_.space.Take(worker.spare);
  if (offset == 0) {
    C::Discard(tree_.texts, right->low);
    return Outcome::kPoolFull;
  }
  right->subnode = tree_.SubnodeAt(offset);
  right->from_end = false;
  AddToNew(right, pair, FingerprintOf(key.hash));
  worker.counters.Add(WorkerCounters::kAppendedLeaves);
  return Outcome::kOk;
}

template <class C>
void LeafSplitter<C>::FlushNew(NewLeaf<C>* right) {
  tree_.medium.Store(right->subnode->word, SealedWord(right->slots));
  right->fences |= tree_.medium.strict_order();
  unsigned lines = right->fences ? 1 : 0;
  for (uint32_t slots = right->slots; slots != 0; slots &= slots - 1) {
    lines |= 1u << LineOfSlot(static_cast<unsigned>(std::countr_zero(slots)));
  }
  // The first line alone is flushed with the commit.
  if (!right->fences) lines &= ~1u;
  tree_.medium.FlushLines(right->subnode, lines);
}

template <class C>
void LeafSplitter<C>::CommitNew(const NewLeaf<C>& right) {
  tree_.medium.StoreOrdered(right.subnode->next, media::End());
  tree_.medium.FlushLine(right.subnode);
}

template <class C>
Leaf* LeafSplitter<C>::PublishNew(const NewLeaf<C>& right, Place place) {
  const Key key = C::KeyOf(right.low);
  auto* parent = place.parent != nullptr ? place.parent : tree_.inner.LockParent(key);
  Leaf* leaf = place.leaf != nullptr ? place.leaf : tree_.leaves.New();
  leaf->lock.InitLocked();
  leaf->place = LeafPlace(tree_.pool.OffsetOf(right.subnode), 1, right.slots);
  std::memcpy(leaf->fingerprints, right.fingerprints, sizeof(leaf->fingerprints));
  leaf->pending = 0;
  leaf->filter = 0;
  const typename Inner::Child child{right.low, leaf};
  tree_.inner.InsertAndUnlock(parent, key, {&child, 1});
  return leaf;
}

template <class C>
void LeafSplitter<C>::PublishOld(Worker& worker, LeafChange* change) {
  if (change->changes()) return writer_.Publish(worker, change);
  LeafCommits<Leaf>::BeginPublish(*change->leaf);
  tree_.commits.EndPublish(*change->leaf);
}

template <class C>
Outcome LeafSplitter<C>::SplitOff(Worker& worker, const Key& key, Pair pair, LeafChange* change,
                                  NewLeaf<C>* right, bool* inserted) {
  Entries entries;
  Sort(*change, &entries);
  *inserted = true;
  if (IsBelow(entries.greatest(), key)) {
    return Append(worker, key, entries.greatest(), pair, right);
  }
  const Outcome outcome = Divide(worker, key, entries, change, right);
  if (outcome != Outcome::kOk) return outcome;
  *inserted = GoesRight(*right, key);
  if (*inserted) AddToNew(right, pair, FingerprintOf(key.hash));
  return Outcome::kOk;
}

// Nothing was split.
template <class C>
void LeafSplitter<C>::GiveUp(const Place& place) {
  if (place.parent != nullptr) Inner::Unlock(place.parent);
  place.leaf->lock.InitLocked();
  place.leaf->lock.Unlock();
  tree_.leaves.Free(place.leaf);
}

template <class C>
Outcome LeafSplitter<C>::Split(Worker& worker, Leaf* leaf, const Key& key, Pair pair,
                               bool* inserted) {
  pmem::Medium& medium = tree_.medium;
  LeafChange change;
  writer_.Begin(leaf, &change);
  const Place place = {tree_.leaves.New(), LockParentBeforeStores(tree_.inner, medium, key)};
  NewLeaf<C> right;
  const Outcome outcome = SplitOff(worker, key, pair, &change, &right, inserted);
  if (outcome != Outcome::kOk) {
    GiveUp(place);
    return outcome;
  }
  if (!medium.Canary("sstree.split.leaf_not_flushed")) FlushNew(&right);
  if (right.moved) writer_.Stage(&change);
  if (medium.Canary("sstree.split.clear_first") && right.moved) {
    writer_.Commit(&change);
    medium.Fence();
  }
  LODGEKV_CRASH_POINT(medium, "sstree.split.1");
  if (right.fences || right.moved) medium.OrderStores();
  CommitNew(right);
  LODGEKV_CRASH_POINT(medium, "sstree.split.2");
  if (right.moved) {
    medium.OrderStores();
    writer_.Commit(&change);
    LODGEKV_CRASH_POINT(medium, "sstree.split.3");
  }
  tree_.FenceAndFree(worker);
  Leaf* added = PublishNew(right, place);
  PublishOld(worker, &change);
  added->lock.Unlock();
  LODGEKV_CRASH_POINT(medium, "sstree.split.4");
  return Outcome::kOk;
}

template class LeafSplitter<Fixed64Codec>;
template class LeafSplitter<BytesCodec>;

}  // namespace lodgekv::sstree
