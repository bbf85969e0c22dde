// The logless split of a single full leaf (LB+-Tree 3.3): one 8-byte store switches between the two
// sibling words of the left leaf's first block. The protocol is Split's crash table in README.md.
//
// INVARIANT: parents refer to the right leaf only after the switch is durable.
//
// Thread-safe for different leaves; the caller holds the left leaf's lock, which covers both leaves
// afterwards. The parent is locked after it.
#pragma once

#include "index/engine.h"
#include "index/lbtree/leaf_divider.h"
#include "index/lbtree/leaf_writer.h"

namespace lodgekv::lbtree {

template <class C>
class LeafSplitter {
 public:
  using Key = typename C::Key;

  explicit LeafSplitter(TreeState<C>& tree) : tree_(tree), divider_(tree), writer_(tree) {}

  // Splits the locked leaf and inserts the pair. Returns kOk; or kPoolFull, or kDataLoss if the
  // keys are so damaged that no separator divides them. Then nothing was changed.
  Outcome Split(Worker& worker, const LockedLeaf& locked, const Key& key, Pair pair);

 private:
  using Parent = typename TreeState<C>::Inner::Node;

  void StageAsInThePaper(SplitWork<C>* work, Pair pair);
  void CommitSplit(const LockedLeaf& locked, const Key& key, const SplitWork<C>& work,
                   Parent* parent);

  TreeState<C>& tree_;
  LeafDivider<C> divider_;
  LeafWriter<C> writer_;
};

}  // namespace lodgekv::lbtree
