// Lines of a leaf: which hold something, and the flush of some. Free functions of what only the
// leaf's writer looks at.
#pragma once

#include <bit>
#include <cstdint>

#include "index/lbtree/distributed_header.h"
#include "index/lbtree/layout.h"

namespace lodgekv::lbtree {

// Of a leaf of `blocks` blocks that only its writer knows.
inline uint32_t LinesInUse(const media::Block* leaf, unsigned blocks) {
  uint32_t lines = LeafLine(0, kBlockLines - 1);
  for (unsigned b = 0; b < blocks; ++b) {
    lines |= LeafLine(b, 0);
    for (uint32_t slots = HeaderOf(leaf, b).slots(); slots != 0; slots &= slots - 1) {
      lines |= LeafLine(b, LineOfSlot(static_cast<unsigned>(std::countr_zero(slots))));
    }
  }
  return lines;
}

// No fence.
inline void FlushLines(pmem::Medium& medium, const media::Block* leaf, uint32_t lines) {
  const char* at = reinterpret_cast<const char*>(leaf);
  for (; lines != 0; lines &= lines - 1) {
    medium.FlushLine(at + static_cast<unsigned>(std::countr_zero(lines)) * pmem::kLineBytes);
  }
}

// The only pair of the leaf is in `block`, whose header is `header`, or is going to be.
inline bool HoldsOnePair(const media::Block* leaf, unsigned blocks, unsigned block,
                         const Header& header) {
  int pairs = std::popcount(header.slots());
  for (unsigned b = 0; b < blocks; ++b) {
    if (b != block) pairs += std::popcount(HeaderOf(leaf, b).slots());
  }
  return pairs == 1;
}

}  // namespace lodgekv::lbtree
