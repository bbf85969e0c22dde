#include "index/lbtree/leaf_divider.h"

#include <bit>
#include <span>

#include "index/lbtree/leaf_image.h"
#include "index/node/pair_order.h"

namespace lodgekv::lbtree {

template <class C>
void LeafDivider<C>::LoadHeaders(SplitWork<C>* work) const {
  for (unsigned b = 0; b < tree_.blocks; ++b) {
    work->left_headers[b] = LoadHeader(HeaderWords(work->left, b, work->alt));
  }
}

// Divides by the left leaf's headers, from which moved entries are removed. False: the leaf's keys
// are so damaged that no separator within `bounds` divides them.
template <class C>
bool LeafDivider<C>::Divide(const Key& key, const Bounds& bounds, SplitWork<C>* work) {
  using Entry = typename SplitWork<C>::Entry;
  Entry gathered[kMaxLeafSlots];
  for (unsigned b = 0; b < tree_.blocks; ++b) {
    for (uint32_t slots = work->left_headers[b].slots(); slots != 0; slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      gathered[work->count++] = {SlotPair(work->left[b], slot), static_cast<uint8_t>(b),
                                 static_cast<uint8_t>(slot)};
    }
  }
  CopyInOrder(tree_.codec, std::span<const Entry>(gathered, work->count), work->entries);
  if (!ChooseBorder(key, bounds, work)) return false;
  for (unsigned i = work->stay; i < work->count; ++i) {
    const auto& entry = work->entries[i];
    work->moved[work->moved_count++] = entry.pair;
    work->left_headers[entry.block].Clear(uint32_t{1} << entry.slot);
  }
  return true;
}

// From the middle outwards: a damaged record may have any key.
template <class C>
bool LeafDivider<C>::ChooseBorder(const Key& key, const Bounds& bounds, SplitWork<C>* work) {
  const auto* const entries = work->entries;
  const unsigned half = work->count / 2;
  for (unsigned away = 0; away < half; ++away) {
    for (const unsigned at : {half - away, half + away}) {
      work->separator = tree_.codec.Between(entries[at - 1].pair, entries[at].pair, tree_.texts);
      if (!Divides(bounds, work->separator)) {
        C::Discard(tree_.texts, work->separator);
        continue;
      }
      work->stay = at;
      work->goes_right = C::CompareToKey(work->separator, key) <= 0;
      return true;
    }
  }
  return false;
}

// The range of the key's leaf, which is locked; needed only where damaged keys are not detected.
// Inside an EpochGuard: the leaf's lock does not protect its neighbours.
template <class C>
typename LeafDivider<C>::Bounds LeafDivider<C>::BoundsOf(const Key& key) const {
  if (!C::kRecords) return {};
  uint64_t snapshot;
  typename Inner::Place place;
  (void)tree_.inner.DescendToPlace(&key, Inner::Seek::kCovering, &snapshot, &place);
  return place.bounds;
}

template <class C>
bool LeafDivider<C>::Divides(const Bounds& bounds, Separator separator) {
  return !C::kRecords || (C::Compare(separator, bounds.low) > 0 &&
                          (!bounds.bounded || C::Compare(separator, bounds.high) < 0));
}

template <class C>
void LeafDivider<C>::StoreRightLeaf(const SplitWork<C>& work) {
  LeafImage image;
  FillImage(tree_, {work.moved, work.moved_count},
            work.left[0].tail[work.alt ? 1 : 0].LoadRelaxed(), &image);
  char* right = tree_.pool.template At<char>(work.right);
  image.ForEachLine(tree_.blocks, [&](size_t at, const char* line) {
    tree_.medium.StoreBulk(right + at, line, pmem::kLineBytes);
  });
}

// Writes step 1 in the left leaf, in unused space only. Returns the lines.
template <class C>
uint32_t LeafDivider<C>::StoreLeftLeaf(SplitWork<C>* work) {
  work->left_headers[0].FlipAlt();
  media::Word& sibling = work->left[0].tail[work->alt ? 0 : 1];
  if (work->in_group || !tree_.medium.Canary("lbtree.split.sibling_after_commit")) {
    tree_.medium.Store(sibling, CheckedWord(work->right));
  }
  uint32_t lines = LeafLine(0, kBlockLines - 1);
  for (unsigned b = 1; b < tree_.blocks; ++b) {
    const bool stays = work->in_group ? tree_.medium.Canary("lbtree.group.headers_stay")
                                      : tree_.medium.Canary("lbtree.split.headers_stay");
    if (stays) break;
    media::Word* unused = HeaderWords(work->left, b, !work->alt);
    tree_.medium.Store(unused[1], work->left_headers[b].words[1]);
    tree_.medium.Store(unused[0], work->left_headers[b].words[0]);
    lines |= LeafLine(b, HeaderLine(b, !work->alt));
  }
  return lines;
}

// Emulates the cost of a split with a log, where the leaf is made durable a second time before it
// changes. The space of the right leaf stands for that log.
template <class C>
void LeafDivider<C>::PersistLeafAside(const SplitWork<C>& work) {
  char* aside = tree_.pool.template At<char>(work.right);
  tree_.medium.StoreBulk(aside, work.left, tree_.leaf_bytes());
  tree_.medium.Persist(aside, tree_.leaf_bytes());
}

template class LeafDivider<Fixed64Codec>;
template class LeafDivider<BytesCodec>;

}  // namespace lodgekv::lbtree
