// The two-phase insertion; its crash table: README.md, Change.
#include "index/sptree/leaf_writer.h"

#include <bit>

#include "index/pmem/crash_point.h"

namespace lodgekv::sptree {

namespace {
// The filter is made anew when so many keys of a leaf have left it: a quarter of a full leaf's.
constexpr unsigned kMostGone = kBnodeSlots / 4;
}  // namespace

template <class C>
void LeafWriter<C>::AddPair(LeafChange<C>* change, Pair pair) {
  media::Bnode& bnode = *change->leaf->bnode;
  const uint16_t hash = tree_.codec.HashOf(pair);
  const unsigned slot = tree_.SlotFor(hash, change->FreeSlots(tree_.usable_slots()));
  media::Slot& at = bnode.slots[slot];
  tree_.medium.StoreTwo(at.key, pair.key, at.value, pair.value);
  pmem::Word& tags = bnode.tags[slot / 8];
  const unsigned shift = slot % 8 * 8;
  tree_.medium.Store(tags, (tags.LoadRelaxed() & ~(uint64_t{0xff} << shift)) |
                               uint64_t{FingerprintOf(hash)} << shift);
  change->lines |= 1u << LineOfSlot(slot) | 1u << kTagLine;
  change->fences = true;
  change->bitmap |= uint64_t{1} << slot;
  if (!tree_.medium.Canary("sptree.change.key_not_in_filter")) change->leaf->filter.Add(hash);
}

template <class C>
void LeafWriter<C>::Stage(LeafChange<C>* change) {
  const char* bnode = reinterpret_cast<const char*>(change->leaf->bnode);
  if (change->unlinked) tree_.medium.Store(change->leaf->bnode->bitmap, change->bitmap);
  if (tree_.medium.Canary("sptree.change.tags_not_flushed")) change->lines &= ~(1u << kTagLine);
  for (uint32_t lines = change->lines; lines != 0; lines &= lines - 1) {
    tree_.medium.FlushLine(bnode +
                           static_cast<unsigned>(std::countr_zero(lines)) * pmem::kLineBytes);
  }
  change->lines = 0;
}

template <class C>
void LeafWriter<C>::MistakeBitmap(const LeafChange<C>& change) {
  pmem::Medium& medium = tree_.medium;
  if (medium.Canary("sptree.change.torn_commit")) [[unlikely]] {
    constexpr uint64_t kLowHalf = 0xffffffff;
    medium.Store(change.leaf->bnode->bitmap, (change.old & ~kLowHalf) | (change.bitmap & kLowHalf));
  }
}

template <class C>
void LeafWriter<C>::Commit(const LeafChange<C>& change) {
  pmem::Medium& medium = tree_.medium;
  if (change.value != nullptr) {
    tree_.commits.BeginCommit(*change.leaf, *change.value);
    medium.StoreOrdered(*change.value, change.new_value);
    medium.FlushLine(change.value);
    return;
  }
  pmem::Word& bitmap = change.leaf->bnode->bitmap;
  MistakeBitmap(change);
  medium.StoreOrdered(bitmap, change.bitmap);
  medium.FlushLine(&bitmap);
}

template <class C>
void LeafWriter<C>::Publish(const LeafChange<C>& change) {
  LeafCommits<Mnode<C>>::BeginPublish(*change.leaf);
  if (change.value == nullptr) SetSlots(change.leaf, change.bitmap);
  tree_.commits.EndPublish(*change.leaf);
}

template <class C>
void LeafWriter<C>::SetSlots(Mnode<C>* leaf, uint64_t bitmap) {
  leaf->gone = static_cast<uint16_t>(leaf->gone + std::popcount(leaf->bitmap & ~bitmap));
  leaf->bitmap = bitmap;
  leaf->sorted.store(false, std::memory_order_relaxed);
  if (leaf->gone >= kMostGone) RenewFilter(leaf);
}

template <class C>
void LeafWriter<C>::RenewFilter(Mnode<C>* leaf) const {
  leaf->filter.Clear();
  leaf->gone = 0;
  for (uint64_t slots = leaf->bitmap; slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    leaf->filter.Add(tree_.codec.HashOf(SlotPair(*leaf->bnode, slot)));
  }
}

template class LeafWriter<Fixed64Codec>;
template class LeafWriter<BytesCodec>;

}  // namespace lodgekv::sptree
