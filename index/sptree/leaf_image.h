// A leaf's content before it is written to space that nothing refers to yet, and its Mnode.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "index/node/separator.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

struct alignas(pmem::kLineBytes) LeafImage {
  uint64_t bitmap = 0;
  uint64_t watermark = 0;
  uint64_t next = 0;
  uint64_t lkey[2] = {};
  uint64_t dropped = 0;
  uint64_t unused[2] = {};
  uint8_t tags[kBnodeSlots] = {};
  Pair slots[kBnodeSlots];

  // Up to the last pair.
  size_t bytes() const {
    return offsetof(LeafImage, slots) +
           (static_cast<size_t>(kBnodeSlots) - static_cast<size_t>(std::countl_zero(bitmap))) *
               sizeof(Pair);
  }
};
static_assert(sizeof(LeafImage) == offsetof(media::Bnode, beyond));
static_assert(offsetof(LeafImage, tags) == offsetof(media::Bnode, tags));

template <class C>
void FillImage(const TreeState<C>& tree, std::span<const Pair> pairs, FenceWords lkey,
               pmem::Offset next, LeafImage* image) {
  image->next = CheckedWord(next);
  image->lkey[0] = lkey.word;
  image->lkey[1] = lkey.meta;
  for (const Pair pair : pairs) {
    const uint16_t hash = tree.codec.HashOf(pair);
    const unsigned slot = tree.SlotFor(hash, tree.usable_slots() & ~image->bitmap);
    image->bitmap |= uint64_t{1} << slot;
    image->tags[slot] = FingerprintOf(hash);
    image->slots[slot] = pair;
  }
}

// Sets a Mnode that nothing leads to, but for its range; `pairs` are those that count.
template <class C>
void SetMnode(const C& codec, media::Bnode* bnode, uint64_t bitmap, std::span<const Pair> pairs,
              Mnode<C>* mnode) {
  mnode->bitmap = bitmap;
  mnode->bnode = bnode;
  mnode->pending = 0;
  mnode->gone = 0;
  mnode->sorted.store(false, std::memory_order_relaxed);
  mnode->filter.Clear();
  for (const Pair pair : pairs) mnode->filter.Add(codec.HashOf(pair));
}

}  // namespace lodgekv::sptree
