// A leaf that is written as a whole. A plain value, not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "index/lbtree/tree_state.h"

namespace lodgekv::lbtree {

struct LeafImage {
  alignas(pmem::kLineBytes) uint64_t words[kMaxBlocks * sizeof(media::Block) / sizeof(uint64_t)];
  uint32_t lines[kMaxBlocks];  // of each block: lines that are not empty

  // Calls visit(place in the leaf, content) for each of these lines.
  template <class Visitor>
  void ForEachLine(unsigned blocks, Visitor visit) const {
    for (unsigned line = 0; line < blocks * kBlockLines; ++line) {
      if ((lines[line / kBlockLines] >> line % kBlockLines & 1) == 0) continue;
      const size_t at = line * pmem::kLineBytes;
      visit(at, reinterpret_cast<const char*>(words) + at);
    }
  }
};

// Pairs are put at the end of each block, so that the next inserts find room beside the headers.
template <class C>
void FillImage(const TreeState<C>& tree, std::span<const Pair> pairs, uint64_t sibling,
               LeafImage* image);

}  // namespace lodgekv::lbtree
