// The search of one leaf (LB+-Tree Alg. 1): the candidate slots for a key, and the matching one.
//
// Thread-safe. Candidates may read a leaf that is changing: its caller validates. FindPlace may be
// called by the holder of the leaf's lock only.
#pragma once

#include <cstdint>

#include "index/lbtree/fingerprints.h"
#include "index/lbtree/tree_state.h"

namespace lodgekv::lbtree {

template <class C>
class LeafSearch {
 public:
  using Key = typename C::Key;

  explicit LeafSearch(const TreeState<C>& tree) : tree_(tree) {}

  // The slots of a block that may hold the key.
  uint32_t Candidates(const LeafView& leaf, unsigned block, const Key& key) const {
    const uint32_t slots = leaf.SlotsOf(block);
    if (!tree_.parameters.fingerprints) return slots;
    return slots & MatchFingerprints(leaf.HeaderAt(block), FingerprintOf(key.hash));
  }
  Place FindPlace(const media::Block* leaf, const Key& key) const;

 private:
  const TreeState<C>& tree_;
};

}  // namespace lodgekv::lbtree
