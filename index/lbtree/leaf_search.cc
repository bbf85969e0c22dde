#include "index/lbtree/leaf_search.h"

namespace lodgekv::lbtree {

template <class C>
Place LeafSearch<C>::FindPlaceInBlocks(media::Block* leaf, const Key& key) const {
  const LeafView view(leaf, nullptr);
  for (unsigned b = 0; b < tree_.blocks; ++b) {
    const Place place = FindSlot(leaf, b, Candidates(view, b, key), key);
    if (place.found()) return place;
  }
  return {};
}

template class LeafSearch<Fixed64Codec>;
template class LeafSearch<BytesCodec>;

}  // namespace lodgekv::lbtree
