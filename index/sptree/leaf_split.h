// The split of a full leaf (SPTree 4.5): its upper pairs are written to a new leaf, which is made
// durable, then linked by the old leaf's `next`, and only then leave the old one. The protocol is
// the crash table Split in README.md.
//
// INVARIANT: until the new leaf is linked nothing that counts has changed in the old one; then both
// have the moved pairs, until the old leaf's bitmap changes, and recovery removes them from the old
// one.
//
// Thread-safe for different leaves; the caller holds the old leaf's lock.
#pragma once

#include <cstdint>

#include "index/engine.h"
#include "index/sptree/leaf_writer.h"
#include "index/sptree/low_fences.h"

namespace lodgekv::sptree {

template <class C>
class LeafSplitter {
 public:
  using Key = typename C::Key;
  using Separator = typename C::Separator;

  explicit LeafSplitter(TreeState<C>& tree) : tree_(tree), fences_(tree), writer_(tree) {}

  // What a split moves, and the new leaf.
  struct Division {
    Separator low{};  // of the new leaf; owned until it is published
    FenceWords fence;
    media::Bnode* bnode = nullptr;
    unsigned stay = 0;   // so many of the sorted entries
    uint64_t moved = 0;  // slots of the old leaf
  };

  // Splits the locked leaf, which is full; `*inserted`: the pair is in the new one, otherwise the
  // old one has room for it. Returns kOk; or kPoolFull, or kDataLoss if the keys are so damaged
  // that no separator divides them. Then nothing was changed.
  Outcome Split(Worker& worker, Mnode<C>* leaf, Pair pair, bool* inserted);

  // The same in steps, for a group. Stage: writes the upper ones of the slots that will count to a
  // new leaf, not flushed, whose Mnode is returned, locked; null: it was not possible, and nothing
  // was done. `*lines`: of the new leaf, to be flushed.
  Mnode<C>* Stage(Worker& worker, const Mnode<C>& leaf, uint64_t bitmap, Division* division,
                  uint32_t* lines);
  // Not flushed.
  void StoreNext(const Mnode<C>& leaf, const Division& division) {
    tree_.medium.StoreOrdered(leaf.bnode->next, CheckedWord(tree_.pool.OffsetOf(division.bnode)));
  }
  // All is durable. `bitmap`: of the old leaf from here on.
  void Publish(Mnode<C>* leaf, Mnode<C>* added, const Division& division, uint64_t bitmap);

 private:
  static constexpr unsigned kNone = UINT32_MAX;
  struct Entry {
    Pair pair;
    int slot;  // -1: the pair to be inserted
  };
  // Pairs of the leaf, perhaps with a new one, in the order of their keys.
  struct Entries {
    Entry at[kBnodeSlots + 1];
    unsigned count = 0;
    unsigned added = kNone;  // where the new one is
  };

  void Gather(const Mnode<C>& leaf, uint64_t bitmap, const Pair* added, Entries* entries) const;
  bool Divides(const Mnode<C>& leaf, const Entries& entries, unsigned stay, Separator* low) const;
  bool ChooseBorder(const Mnode<C>& leaf, const Entries& entries, Division* division) const;
  bool MakeFence(Worker& worker, const Mnode<C>& leaf, const Entries& entries, Division* division);
  Outcome Divide(Worker& worker, const Mnode<C>& leaf, const Entries& entries, Division* division);
  Mnode<C>* StoreNew(const Mnode<C>& leaf, const Entries& entries, Division* division,
                     size_t* bytes);
  void Commit(const Mnode<C>& leaf, const Division& division);

  TreeState<C>& tree_;
  LowFences<C> fences_;
  LeafWriter<C> writer_;
};

}  // namespace lodgekv::sptree
