// The used lines of a leaf. Free functions that need only the leaf itself.
#pragma once

#include <bit>
#include <cstdint>

#include "index/lbtree/distributed_header.h"
#include "index/lbtree/layout.h"

namespace lodgekv::lbtree {

// For a leaf of `blocks` blocks that only its writer knows.
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

// Whether the leaf's only pair is in `block`, whose header is or will be `header`.
inline bool HoldsOnePair(const media::Block* leaf, unsigned blocks, unsigned block,
                         const Header& header) {
  if (!std::has_single_bit(header.slots())) return false;
  for (unsigned b = 0; b < blocks; ++b) {
    if (b != block && HeaderOf(leaf, b).slots() != 0) return false;
  }
  return true;
}

}  // namespace lodgekv::lbtree
