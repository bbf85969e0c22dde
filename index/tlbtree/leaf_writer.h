// Writes pairs into a leaf (TLBtree III (2), (3)): a new pair goes to a free slot, and one 8-byte
// store of the state word commits it (NAW). The protocols are the crash tables Insert, Update and
// Delete in README.md.
//
// INVARIANT: nothing is stored in a slot that is valid by the state on the medium; a value that
// changes in its slot is one word.
//
// Thread-safe for different leaves; for one leaf, only the holder of its lock may call.
#pragma once

#include <cstdint>

#include "index/tlbtree/tree_state.h"

namespace lodgekv::tlbtree {

template <class C>
class LeafWriter {
 public:
  using Node = media::Node<C>;

  explicit LeafWriter(TreeState<C>& tree) : tree_(tree) {}

  // Durable on return. Insert returns false if the leaf is full.
  bool Insert(Worker& worker, const LockedLeaf<C>& locked, Pair pair) {
    return InsertInto(worker, locked, pair, tree_.usable_slots());
  }
  // Into any slot: a pool may have been opened with a smaller `leaf_slots`, and then all that are
  // used may stay valid in a leaf that was just split.
  bool InsertAnywhere(Worker& worker, const LockedLeaf<C>& locked, Pair pair) {
    return InsertInto(worker, locked, pair, (uint32_t{1} << Node::kSlots) - 1);
  }
  void Update(Worker& worker, const LockedLeaf<C>& locked, Pair pair);
  void Remove(Worker& worker, const LockedLeaf<C>& locked);

  void StoreSlot(Node* leaf, unsigned slot, Pair pair) {
    tree_.medium.StoreTwo(leaf->slots[slot].key, pair.key, leaf->slots[slot].value, pair.value);
  }
  static void CountInsert(Worker& worker, bool beside_state);

 private:
  bool InsertInto(Worker& worker, const LockedLeaf<C>& locked, Pair pair, uint32_t usable);
  uint32_t MoveEntries(Worker& worker, Node* leaf, uint32_t free, unsigned line, NodeState* state);
  void FenceRecord(Pair pair);

  TreeState<C>& tree_;
};

}  // namespace lodgekv::tlbtree
