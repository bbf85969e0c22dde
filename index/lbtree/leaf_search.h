// The search of one leaf (LB+-Tree Alg. 1): the candidate slots for a key, and the matching one.
//
// Thread-safe. Candidates may read a leaf that is changing: its caller validates. FindPlace may be
// called by the holder of the leaf's lock only.
#pragma once

#include <bit>
#include <cstdint>

#include "index/lbtree/fingerprints.h"
#include "index/lbtree/tree_state.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::lbtree {

template <class C>
class LeafSearch {
 public:
  using Key = typename C::Key;

  explicit LeafSearch(const TreeState<C>& tree) : tree_(tree) {}

  // The slots of a block that may hold the key.
  uint32_t Candidates(const LeafView& leaf, unsigned block, const Key& key) const {
    if (!tree_.parameters.fingerprints) return leaf.SlotsOf(block);
    return ByFingerprint(leaf, block, key);
  }
  // The same in a tree with fingerprints.
  static uint32_t ByFingerprint(const LeafView& leaf, unsigned block, const Key& key) {
    return leaf.SlotsOf(block) & MatchFingerprints(leaf.HeaderAt(block), FingerprintOf(key.hash));
  }
  Place FindPlace(media::Block* leaf, const Key& key) const {
    if (tree_.blocks == 1 && tree_.parameters.fingerprints) [[likely]] {
      const LeafView view = LeafView::OfOneBlock(leaf);
      return FindSlot(leaf, 0, ByFingerprint(view, 0, key), key);
    }
    return FindPlaceInBlocks(leaf, key);
  }
  // Which of the candidates in the block has the key.
  Place FindSlot(media::Block* leaf, unsigned block, uint32_t slots, const Key& key) const {
    for (; slots != 0; slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      const Pair pair = SlotPair(leaf[block], slot);
      if (tree_.codec.MayMatch(key, pair) && tree_.codec.Matches(key, pair)) {
        return Place::Of(leaf, block, slot);
      }
    }
    return {};
  }

  // Fetches the records that the search for the key reads. The leaf may be changing.
  void FetchRecords(const media::Block* leaf, const Key& key) const {
    const OptimisticSection section;
    const LeafView view = tree_.locks.ViewOf(leaf);
    for (unsigned b = 0; b < tree_.blocks; ++b) {
      uint32_t slots = Candidates(view, b, key);
      for (; slots != 0; slots &= slots - 1) {
        const Pair pair = view.PairAt(b, static_cast<unsigned>(std::countr_zero(slots)));
        if (tree_.codec.MayMatch(key, pair)) tree_.codec.PrefetchKey(pair);
      }
    }
  }

 private:
  Place FindPlaceInBlocks(media::Block* leaf, const Key& key) const;

  const TreeState<C>& tree_;
};

}  // namespace lodgekv::lbtree
