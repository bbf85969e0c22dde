// The filter of a leaf's overflow subnodes in a change of it (leaf.h, invariant 2).
#include <array>
#include <bit>

#include "index/sstree/leaf_writer.h"

namespace lodgekv::sstree {

namespace {

// Bits that are set on average in a filter of so many pairs.
constexpr auto kUsualBits = [] {
  std::array<uint8_t, kMaxLeafSlots + 1> bits{};
  double clear = 64;
  for (size_t pairs = 0; pairs < bits.size(); ++pairs) {
    bits[pairs] = static_cast<uint8_t>(64 - clear + 0.5);
    for (int bit = 0; bit < 3; ++bit) clear *= 63.0 / 64;
  }
  return bits;
}();

}  // namespace

template <class C>
uint64_t LeafWriter<C>::FilterOf(const media::Subnode& subnode, uint32_t slots) const {
  uint64_t filter = 0;
  for (; slots != 0; slots &= slots - 1) {
    const Pair pair = SlotPair(subnode, static_cast<unsigned>(std::countr_zero(slots)));
    filter |= Leaf::FilterBits(tree_.codec.HashOf(pair));
  }
  return filter;
}

// If it has far more bits than its pairs are likely to set: of pairs that have gone.
template <class C>
void LeafWriter<C>::RenewStaleFilter(LeafChange* change) const {
  constexpr int kMore = 4;
  const int pairs = std::popcount(change->valid >> kSubnodeSlots);
  const int usual = kUsualBits[static_cast<size_t>(pairs)];
  if (std::popcount(change->filter) > usual + kMore) RenewFilter(change);
}

template <class C>
void LeafWriter<C>::RenewFilter(LeafChange* change) const {
  change->filter = 0;
  for (unsigned i = 1; i < change->subnodes; ++i) {
    const uint32_t slots = SlotsOf(change->valid, i);
    if (slots != 0) change->filter |= FilterOf(*search_.SubnodeOf(*change, i), slots);
  }
}

template class LeafWriter<Fixed64Codec>;
template class LeafWriter<BytesCodec>;

}  // namespace lodgekv::sstree
