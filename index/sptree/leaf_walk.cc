#include "index/sptree/leaf_walk.h"

#include "index/node/epoch.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::sptree {

// What follows the leaf, as of its version. To be asked before the leaf itself is validated.
template <class C>
auto LeafWalk<C>::RightOf(const Mnode<C>& leaf) const -> Place {
  Mnode<C>* const right = leaf.right;
  // Whoever seeks it settles it, too.
  if (right == nullptr || tree_.settling.unfinished()) return {};
  return {right, right->lock.ReadBegin()};
}

// Along `right`, and by a search where that has changed.
template <class C>
bool LeafWalk<C>::ForEach(std::string from, bool lock, Visitor visit) const {
  Backoff backoff;
  Place next;
  for (bool more = true; more;) {
    const EpochGuard guard;
    const Place here = next.leaf != nullptr ? next : Seek(from);
    next = {};
    if (here.leaf == nullptr) return false;
    if (lock && !here.leaf->lock.TryUpgrade(here.snapshot)) {
      backoff.Pause();
      continue;
    }
    Visit at;
    {
      const OptimisticSection section;
      const Mnode<C>& leaf = *here.leaf;
      at = {here.leaf, leaf.bnode, KeysOf(leaf), leaf.low, leaf.high, leaf.bounded()};
      const bool gap = leaf.gap;  // for a search to open
      const Place right = lock ? Place() : RightOf(leaf);
      if (!leaf.lock.Validate(here.snapshot) || gap) continue;
      next = right;
    }
    if (!visit(at)) return true;
    more = at.bounded;
    if (more) from = C::TextOf(at.high);
  }
  return true;
}

template <class C>
auto LeafWalk<C>::Seek(std::string_view from) const -> Place {
  const typename C::Key key = C::MakeKey(from);
  Place place;
  place.leaf = tree_.top.Find(key, &place.snapshot);
  if (place.leaf != nullptr) tree_.Touch(key);
  return place;
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
