// The split of a leaf; its crash table: README.md, Split.
#include "index/sptree/leaf_split.h"

#include <bit>
#include <span>
#include <utility>

#include "index/node/pair_order.h"
#include "index/pmem/crash_point.h"
#include "index/sptree/leaf_image.h"

namespace lodgekv::sptree {

template <class C>
void LeafSplitter<C>::Gather(const Mnode<C>& leaf, uint64_t bitmap, const Pair* added,
                             Entries* entries) const {
  Entry gathered[kBnodeSlots + 1];
  for (uint64_t slots = bitmap; slots != 0; slots &= slots - 1) {
    const int slot = std::countr_zero(slots);
    gathered[entries->count++] = {SlotPair(*leaf.bnode, static_cast<unsigned>(slot)), slot};
  }
  if (added != nullptr) gathered[entries->count++] = {*added, -1};
  CopyInOrder(tree_.codec, std::span<const Entry>(gathered, entries->count), entries->at);
  if (added == nullptr) return;
  entries->added = 0;
  while (entries->at[entries->added].slot >= 0) ++entries->added;
}

// Whether there is a separator below entry `stay` and inside the leaf's range: a damaged record may
// have any key.
template <class C>
bool LeafSplitter<C>::Divides(const Mnode<C>& leaf, const Entries& entries, unsigned stay,
                              Separator* low) const {
  *low = tree_.codec.Between(entries.at[stay - 1].pair, entries.at[stay].pair, tree_.texts);
  if (!C::kRecords ||
      (C::Compare(*low, leaf.low) > 0 && (!leaf.bounded() || C::Compare(*low, leaf.high) < 0))) {
    return true;
  }
  C::Discard(tree_.texts, *low);
  return false;
}

// Keys that ascend leave full leaves behind. Otherwise from the middle outwards.
template <class C>
bool LeafSplitter<C>::ChooseBorder(const Mnode<C>& leaf, const Entries& entries,
                                   Division* division) const {
  const unsigned last = entries.count - 1;
  division->stay = last;
  if (entries.added == last && Divides(leaf, entries, last, &division->low)) return true;
  const unsigned middle = entries.count / 2;
  for (unsigned away = 0; away < middle; ++away) {
    for (const unsigned stay : {middle - away, middle + away}) {
      if (stay > last) continue;
      division->stay = stay;
      if (Divides(leaf, entries, stay, &division->low)) return true;
    }
  }
  return false;
}

// If the pool has no room for the record of a long separator, one beside the new key may do: a
// batch has set aside what that needs.
template <class C>
bool LeafSplitter<C>::MakeFence(Worker& worker, const Mnode<C>& leaf, const Entries& entries,
                                Division* division) {
  if (fences_.Make(worker, division->low, &division->fence)) return true;
  C::Discard(tree_.texts, division->low);
  if (entries.added == kNone) return false;
  for (const unsigned stay : {entries.added, entries.added + 1}) {
    if (stay == 0 || stay == entries.count) continue;
    division->stay = stay;
    if (!Divides(leaf, entries, stay, &division->low)) continue;
    if (fences_.Make(worker, division->low, &division->fence)) return true;
    C::Discard(tree_.texts, division->low);
  }
  return false;
}

template <class C>
Outcome LeafSplitter<C>::Divide(Worker& worker, const Mnode<C>& leaf, const Entries& entries,
                                Division* division) {
  if (!ChooseBorder(leaf, entries, division)) return Outcome::kDataLoss;
  const pmem::Offset space = tree_.space.Take(worker.spare);
  if (space == 0) {
    C::Discard(tree_.texts, division->low);
    return Outcome::kPoolFull;
  }
  if (!MakeFence(worker, leaf, entries, division)) {
    tree_.bnodes.Free(space);
    return Outcome::kPoolFull;
  }
  division->bnode = tree_.BnodeAt(space);
  return Outcome::kOk;
}

// Step 2: the new leaf and its Mnode, which nothing leads to yet.
template <class C>
Mnode<C>* LeafSplitter<C>::StoreNew(const Mnode<C>& leaf, const Entries& entries,
                                    Division* division, size_t* bytes) {
  Pair pairs[kBnodeSlots];
  size_t count = 0;
  for (unsigned i = division->stay; i < entries.count; ++i) {
    const Entry& entry = entries.at[i];
    pairs[count++] = entry.pair;
    if (entry.slot >= 0) division->moved |= uint64_t{1} << entry.slot;
  }
  LeafImage image;
  const pmem::Offset next = leaf.bounded() ? tree_.pool.OffsetOf(leaf.right->bnode) : 0;
  FillImage<C>(tree_, {pairs, count}, division->fence, next, &image);
  image.watermark = leaf.bnode->watermark.Load();  // its buffer is empty
  *bytes = image.bytes();
  tree_.medium.StoreBulk(division->bnode, &image, *bytes);
  Mnode<C>* added = tree_.mnodes.New();
  added->lock.InitLocked();
  SetMnode(tree_.codec, division->bnode, image.bitmap, {pairs, count}, added);
  return added;
}

template <class C>
Mnode<C>* LeafSplitter<C>::Stage(Worker& worker, const Mnode<C>& leaf, uint64_t bitmap,
                                 Division* division, uint32_t* lines) {
  Entries entries;
  Gather(leaf, bitmap, nullptr, &entries);
  if (Divide(worker, leaf, entries, division) != Outcome::kOk) return nullptr;
  size_t bytes;
  Mnode<C>* added = StoreNew(leaf, entries, division, &bytes);
  *lines = (1u << (bytes + pmem::kLineBytes - 1) / pmem::kLineBytes) - 1;
  worker.counters.Add(WorkerCounters::kLeafSplits);
  return added;
}

// Step 3: `next`, which moves hkey, and then the bitmap. One line, which keeps their order unless
// its words may tear.
template <class C>
void LeafSplitter<C>::Commit(const Mnode<C>& leaf, const Division& division) {
  pmem::Medium& medium = tree_.medium;
  media::Bnode* bnode = leaf.bnode;
  if (medium.Canary("sptree.split.bitmap_first")) {
    medium.Store(bnode->bitmap, leaf.bitmap & ~division.moved);
  }
  StoreNext(leaf, division);
  if (medium.strict_order() && division.moved != 0) {
    medium.FlushLine(bnode);
    LODGEKV_CRASH_POINT(medium, "sptree.split.2");
    medium.OrderStores();
  }
  if (division.moved != 0) medium.StoreOrdered(bnode->bitmap, leaf.bitmap & ~division.moved);
  medium.FlushLine(bnode);
  LODGEKV_CRASH_POINT(medium, "sptree.split.3");
  medium.Fence();
}

// Step 4. The new Mnode is locked: a writer that the top layer leads there waits.
template <class C>
void LeafSplitter<C>::Publish(Mnode<C>* leaf, Mnode<C>* added, const Division& division,
                              uint64_t bitmap) {
  added->low = division.low;
  added->high = leaf->high;
  added->right = leaf->right;
  C::Keep(division.low);  // of the Mnode, and as the old one's `high`
  tree_.top.Insert(added);
  LeafCommits<Mnode<C>>::BeginPublish(*leaf);
  tree_.backup.NoteSplit({.leaf = {C::WordOf(division.low, 0), tree_.pool.OffsetOf(added->bnode)},
                          .from = tree_.pool.OffsetOf(leaf->bnode)});
  leaf->high = division.low;
  leaf->right = added;
  writer_.SetSlots(leaf, bitmap);
  tree_.commits.EndPublish(*leaf);
  added->lock.Unlock();
}

template <class C>
Outcome LeafSplitter<C>::Split(Worker& worker, Mnode<C>* leaf, Pair pair, bool* inserted) {
  Entries entries;
  Gather(*leaf, leaf->bitmap, &pair, &entries);
  Division division;
  const Outcome outcome = Divide(worker, *leaf, entries, &division);
  if (outcome != Outcome::kOk) return outcome;
  size_t bytes;
  Mnode<C>* added = StoreNew(*leaf, entries, &division, &bytes);
  if (!tree_.medium.Canary("sptree.split.leaf_not_flushed")) {
    tree_.medium.Flush(division.bnode, bytes);
  }
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.split.1");
  tree_.medium.OrderStores();
  Commit(*leaf, division);
  Publish(leaf, added, division, leaf->bitmap & ~division.moved);
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.split.4");
  *inserted = entries.added >= division.stay;
  worker.counters.Add(WorkerCounters::kLeafSplits);
  return Outcome::kOk;
}

template class LeafSplitter<Fixed64Codec>;
template class LeafSplitter<BytesCodec>;

}  // namespace lodgekv::sptree
