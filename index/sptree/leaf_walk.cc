#include "index/sptree/leaf_walk.h"

#include "index/node/epoch.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::sptree {

template <class C>
bool LeafWalk<C>::ForEach(std::string from, bool lock, Visitor visit) const {
  Backoff backoff;
  for (bool more = true; more;) {
    const EpochGuard guard;
    const typename C::Key key = C::MakeKey(from);
    uint64_t snapshot;
    Mnode<C>* leaf = tree_.top.Find(key, &snapshot);
    if (leaf == nullptr) return false;
    tree_.Touch(key);
    if (lock && !leaf->lock.TryUpgrade(snapshot)) {
      backoff.Pause();
      continue;
    }
    Visit at;
    {
      const OptimisticSection section;
      at = {leaf, leaf->bnode, KeysOf(*leaf), leaf->low, leaf->high, leaf->bounded()};
      if (!leaf->lock.Validate(snapshot)) continue;
    }
    if (!visit(at)) return true;
    more = at.bounded;
    if (more) from = C::TextOf(at.high);
  }
  return true;
}

template <class C>
uint64_t LeafWalk<C>::CountKeys() const {
  uint64_t keys = 0;
  (void)ForEach(C::TextOf(C::MinusInfinity()), /*lock=*/false, [&](const Visit& at) {
    keys += at.keys;
    return true;
  });
  return keys;
}

template class LeafWalk<Fixed64Codec>;
template class LeafWalk<BytesCodec>;

}  // namespace lodgekv::sptree
