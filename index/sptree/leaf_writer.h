// Changes of one leaf by the two-phase insertion of SPTree 4.1: pairs and tags are written to slots
// that do not count, any number under one fence, and one store of the bitmap makes them count. The
// protocol is the crash table Change in README.md.
//
// A change, then AddPair and Drop in any number, Stage, a fence if FencesFirst, Commit, a fence,
// Publish.
//
// Thread-safe for different leaves; for one leaf, only the holder of its lock may call.
#pragma once

#include <cstdint>

#include "index/sptree/leaf_change.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class LeafWriter {
 public:
  explicit LeafWriter(TreeState<C>& tree) : tree_(tree) {}

  bool HasRoom(const LeafChange<C>& change) const {
    return change.FreeSlots(tree_.usable_slots()) != 0;
  }
  // There is room.
  void AddPair(LeafChange<C>* change, Pair pair);
  static void Drop(LeafChange<C>* change, unsigned slot) {
    change->bitmap &= ~(uint64_t{1} << slot);
  }

  // First phase: flushes what was written.
  void Stage(LeafChange<C>* change);
  static bool FencesFirst(const LeafChange<C>& change) { return change.fences; }
  // Second phase: one store, flushed.
  void Commit(const LeafChange<C>& change);
  // The same, durable on return, of a change of slots. `at_point`: Medium::PersistOrdered.
  template <class AtPoint>
  void CommitDurably(const LeafChange<C>& change, AtPoint at_point) {
    if (tree_.medium.tracer() != nullptr) [[unlikely]]
      MistakeBitmap(change);
    tree_.medium.PersistOrdered(change.leaf->bnode->bitmap, change.bitmap, at_point);
  }
  // The commit is durable.
  void Publish(const LeafChange<C>& change);

  // Of a leaf of which readers wait: the slots that count from here on.
  void SetSlots(Mnode<C>* leaf, uint64_t bitmap);

 private:
  // Only for a canary.
  void MistakeBitmap(const LeafChange<C>& change);
  void RenewFilter(Mnode<C>* leaf) const;

  TreeState<C>& tree_;
};

}  // namespace lodgekv::sptree
