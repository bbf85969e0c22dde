#include "index/lbtree/leaf_image.h"

#include <cstring>

namespace lodgekv::lbtree {

template <class C>
void FillImage(const TreeState<C>& tree, std::span<const Pair> pairs, uint64_t sibling,
               LeafImage* image) {
  constexpr unsigned kBlockWords = pmem::kBlockBytes / sizeof(uint64_t);
  constexpr unsigned kTailWord = offsetof(media::Block, tail) / sizeof(uint64_t);
  std::memset(image->words, 0, tree.leaf_bytes());
  image->words[kTailWord] = sibling;
  for (unsigned b = 0; b < tree.blocks; ++b) {
    uint64_t* block = image->words + b * kBlockWords;
    uint32_t& lines = image->lines[b];
    lines = b == 0 ? 1u | 1u << (kBlockLines - 1) : 1u;
    Header header{};
    const size_t end = pairs.size() * (b + 1) / tree.blocks;
    unsigned slot = tree.parameters.leaf_slots;
    for (size_t i = pairs.size() * b / tree.blocks; i < end; ++i) {
      const Pair pair = pairs[i];
      --slot;
      block[2 + 2 * slot] = pair.key;
      block[3 + 2 * slot] = pair.value;
      header.Set(slot, FingerprintOf(tree.codec.HashOf(pair)));
      lines |= 1u << LineOfSlot(slot);
    }
    block[0] = header.words[0];
    block[1] = header.words[1];
  }
}

template void FillImage(const TreeState<Fixed64Codec>&, std::span<const Pair>, uint64_t,
                        LeafImage*);
template void FillImage(const TreeState<BytesCodec>&, std::span<const Pair>, uint64_t, LeafImage*);

}  // namespace lodgekv::lbtree
