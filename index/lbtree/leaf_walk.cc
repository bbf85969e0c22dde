#include "index/lbtree/leaf_walk.h"

#include <bit>

#include "index/node/epoch.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::lbtree {

template <class C>
void LeafWalk<C>::ForEach(std::string from, Visitor visit) const {
  using Inner = typename TreeState<C>::Inner;
  for (bool more = true; more;) {
    const EpochGuard guard;
    const typename C::Key key = C::MakeKey(from);
    uint64_t snapshot;
    typename Inner::Place place;
    const media::Block* leaf =
        tree_.inner.DescendToPlace(&key, Inner::Seek::kCovering, &snapshot, &place);
    tree_.Touch(key);
    uint32_t slots[kMaxBlocks];
    {
      const OptimisticSection section;
      const LeafView view = tree_.locks.ViewOf(leaf);
      for (unsigned b = 0; b < tree_.blocks; ++b) slots[b] = view.SlotsOf(b);
      if (!tree_.locks.Of(leaf).Validate(snapshot)) continue;
    }
    if (!visit(leaf, place.bounds, slots)) return;
    more = place.bounds.bounded && C::CompareToKey(place.bounds.high, key) > 0;
    if (more) from = C::TextOf(place.bounds.high);
  }
}

template <class C>
uint64_t LeafWalk<C>::CountKeys() const {
  uint64_t keys = 0;
  ForEach([&](const media::Block*, const Bounds&, const uint32_t* slots) {
    for (unsigned b = 0; b < tree_.blocks; ++b) {
      keys += static_cast<uint64_t>(std::popcount(slots[b]));
    }
    return true;
  });
  return keys;
}

template class LeafWalk<Fixed64Codec>;
template class LeafWalk<BytesCodec>;

}  // namespace lodgekv::lbtree
