#include "index/lbtree/leaf_search.h"

#include <bit>

namespace lodgekv::lbtree {

template <class C>
Place LeafSearch<C>::FindPlace(const media::Block* leaf, const Key& key) const {
  const LeafView view(leaf, nullptr);
  for (unsigned b = 0; b < tree_.blocks; ++b) {
    uint32_t slots = Candidates(view, b, key);
    for (; slots != 0; slots &= slots - 1) {
      const int slot = std::countr_zero(slots);
      const Pair pair = SlotPair(leaf[b], static_cast<unsigned>(slot));
      if (tree_.codec.MayMatch(key, pair) && tree_.codec.Matches(key, pair)) return {b, slot};
    }
  }
  return {};
}

template class LeafSearch<Fixed64Codec>;
template class LeafSearch<BytesCodec>;

}  // namespace lodgekv::lbtree
