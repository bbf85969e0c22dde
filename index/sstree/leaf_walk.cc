#include "index/sstree/leaf_walk.h"

#include <bit>

#include "index/node/epoch.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::sstree {

template <class C>
void LeafWalk<C>::ForEach(std::string from, bool lock, Visitor visit) const {
  using Inner = typename TreeState<C>::Inner;
  Backoff backoff;
  const Leaf* visited = nullptr;
  for (bool more = true; more;) {
    const EpochGuard guard;
    const typename C::Key key = C::MakeKey(from);
    uint64_t snapshot;
    typename Inner::Place place;
    Leaf* leaf = tree_.inner.DescendToPlace(&key, Inner::Seek::kCovering, &snapshot, &place);
    tree_.Touch(key);
    // The leaf visited last, which the visitor may hold, has taken over an empty one's range since.
    const bool again = leaf == visited && C::CompareToKey(place.bounds.low, key) < 0;
    if (!again) {
      if (lock && !leaf->lock.TryUpgrade(snapshot)) {
        backoff.Pause();
        continue;
      }
      uint64_t valid;
      {
        const OptimisticSection section;
        valid = tree_.ValidOf(*leaf);
        if (!leaf->lock.Validate(snapshot)) continue;
      }
      if (!visit(leaf, place.bounds, valid)) return;
      visited = leaf;
    }
    more = place.bounds.bounded && C::CompareToKey(place.bounds.high, key) > 0;
    if (more) from = C::TextOf(place.bounds.high);
  }
}

template <class C>
uint64_t LeafWalk<C>::CountKeys() const {
  uint64_t keys = 0;
  ForEach(C::TextOf(C::MinusInfinity()), /*lock=*/false,
          [&](const Leaf*, const Bounds&, uint64_t valid) {
            keys += static_cast<uint64_t>(std::popcount(valid));
            return true;
          });
  return keys;
}

template class LeafWalk<Fixed64Codec>;
template class LeafWalk<BytesCodec>;

}  // namespace lodgekv::sstree
