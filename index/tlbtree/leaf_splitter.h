// The log-free split of a single full leaf (TLBtree III (4)): one 8-byte store of the left leaf's
// state word lets go of the pairs that move, and selects the sibling word that leads to the new
// leaf. The protocol is Split's crash table in README.md. The new leaf's entry above is made in it
// (split_entry.h), or later, without the leaf's lock (sub_indices.h); until then the leaf is
// reached from the left one.
//
// Thread-safe for different leaves; the caller holds the left leaf's lock.
#pragma once

#include "index/tlbtree/leaf_divider.h"
#include "index/tlbtree/leaf_writer.h"

namespace lodgekv::tlbtree {

template <class C>
class LeafSplitter {
 public:
  using Key = typename C::Key;

  explicit LeafSplitter(TreeState<C>& tree) : tree_(tree), divider_(tree), writer_(tree) {}

  // Splits the locked leaf and inserts the pair. Returns kOk; or kPoolFull or kDataLoss, then
  // nothing was changed.
  Outcome Split(Worker& worker, const LockedLeaf<C>& locked, const Key& key, Pair pair);

 private:
  using Left = typename LeafDivider<C>::Left;
  using Division = typename LeafDivider<C>::Division;
  void Commit(const LockedLeaf<C>& locked, const Left& left, const Division& made,
              const LinkTo& sibling);

  TreeState<C>& tree_;
  LeafDivider<C> divider_;
  LeafWriter<C> writer_;
};

}  // namespace lodgekv::tlbtree
