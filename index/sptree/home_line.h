// Where in its leaf a pair is put: each key has a *home line*, one of the leaf's lines of four
// slots, chosen by its hash. A pair goes to a free slot there, or else to the first free one behind
// it. Four in five are found at home, so whoever seeks a key fetches that line together with the
// tags instead of after them: one wait for the medium instead of two.
//
// Not in the paper, whose leaves take the first free slot. Which slot a pair has means nothing on
// the medium, so trees with and without home lines read one another's leaves. A tree with write
// buffers has none: a flush writes its pairs to adjacent slots, which are fewer lines.
#pragma once

#include <bit>
#include <cstdint>

#include "index/node/prefetch.h"
#include "index/sptree/layout.h"

namespace lodgekv::sptree {

inline constexpr unsigned kSlotsOfLine = pmem::kLineBytes / sizeof(media::Slot);

// The first slot of the key's home line. Of the hash's bits that its tag does not have.
inline unsigned HomeOf(uint16_t hash) {
  constexpr unsigned kLines = kBnodeSlots / kSlotsOfLine;
  return (hash >> 8) % kLines * kSlotsOfLine;
}

// One of `free_slots`, which is not empty: the first from `home` on.
inline unsigned FirstFreeFrom(unsigned home, uint64_t free_slots) {
  const uint64_t from_home = std::rotr(free_slots, static_cast<int>(home));
  return (static_cast<unsigned>(std::countr_zero(from_home)) + home) % kBnodeSlots;
}

inline void FetchHome(const media::Bnode& bnode, uint16_t hash) {
  Prefetch(&bnode.slots[HomeOf(hash)]);
}

}  // namespace lodgekv::sptree
