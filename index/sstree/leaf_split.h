// The split of a full leaf, for which the paper has no protocol: the upper pairs are written to a
// new leaf of one subnode, that is made durable as a head, and only then leave the old one. The
// protocol is Split's crash table in README.md.
//
// INVARIANT: until the new leaf is durable nothing valid has changed in the old one; then both have
// the same pairs, until the old leaf's commit, and recovery removes them from the old one.
//
// Thread-safe for different leaves; the caller holds the old leaf's lock. The parent is locked
// after it.
#pragma once

#include <cstdint>

#include "index/engine.h"
#include "index/sstree/leaf_writer.h"

namespace lodgekv::sstree {

// A new leaf: nothing refers to it, and its free tag keeps it out of the tree.
template <class C>
struct NewLeaf {
  media::Subnode* subnode = nullptr;
  typename C::Separator low{};  // lower bound of its keys; owned until the parent refers to it
  uint32_t slots = 0;
  uint8_t fingerprints[kSubnodeSlots] = {};
  bool moved = false;    // pairs of it are in the old leaf too
  bool fences = false;   // what was written needs a fence before it is a head
  bool from_end = true;  // slots are used from the last one down: free ones are beside the word

  bool exists() const { return subnode != nullptr; }
};

template <class C>
class LeafSplitter {
 public:
  using Key = typename C::Key;
  using Separator = typename C::Separator;
  using Inner = typename TreeState<C>::Inner;
  using Bounds = typename TreeState<C>::Bounds;

  explicit LeafSplitter(TreeState<C>& tree) : tree_(tree), search_(tree), writer_(tree) {}

  // Splits the locked leaf; `*inserted`: the pair is in the new one, otherwise the old one has room
  // for it. Returns kOk; or kPoolFull, or kDataLoss if the keys are so damaged that no separator
  // divides them. Then nothing was changed.
  Outcome Split(Worker& worker, Leaf* leaf, const Key& key, Pair pair, bool* inserted);

  // The pairs of a leaf, by ascending keys.
  struct Entries {
    struct Entry {
      Pair pair;
      unsigned bit;
    } at[kMaxLeafSlots];
    unsigned count = 0;

    Pair greatest() const { return at[count - 1].pair; }
  };
  void Sort(const LeafChange& change, Entries* entries) const;
  Pair GreatestOf(const media::Subnode& subnode, uint32_t slots) const;
  bool IsBelow(Pair pair, const Key& key) const;
  // The range of the key's leaf, which is locked; needed only where damaged keys are not detected.
  // Inside an EpochGuard: the leaf's lock does not protect its neighbours.
  Bounds BoundsOf(const Key& key) const;

  // Divides the leaf of `change`, which has the `entries`: its upper pairs are dropped there and
  // written to `right`, not flushed. kPoolFull or kDataLoss: nothing was done.
  Outcome Divide(Worker& worker, const Key& key, const Entries& entries, LeafChange* change,
                 NewLeaf<C>* right);
  static bool GoesRight(const NewLeaf<C>& right, const Key& key) {
    return C::CompareToKey(right.low, key) <= 0;
  }
  bool HoldsKey(const NewLeaf<C>& right, const Key& key) const {
    return search_.FindSlot(*right.subnode, right.slots, key) >= 0;
  }
  void AddToNew(NewLeaf<C>* right, Pair pair, uint8_t fingerprint);
  void FlushNew(NewLeaf<C>* right);
  // Makes it a head: stored and flushed.
  void CommitNew(const NewLeaf<C>& right);
  // What publishes a new leaf: that in DRAM, and its parent, locked. Null: PublishNew takes it.
  struct Place {
    Leaf* leaf = nullptr;
    typename Inner::Node* parent = nullptr;
  };
  // Both leaves' commits are durable. From here on the parent refers to both, but writers wait at
  // the new one, which the caller unlocks when the old one is published.
  Leaf* PublishNew(const NewLeaf<C>& right, Place place = {});
  // The old leaf: also one that has lost no pair covers less from here on.
  void PublishOld(Worker& worker, LeafChange* change);

 private:
  unsigned LeastThatStay(const LeafChange& change, const Entries& entries) const;
  bool ChooseBorder(const Key& key, const Entries& entries, unsigned least, unsigned* stay,
                    Separator* low);
  Outcome Append(Worker& worker, const Key& key, Pair greatest, Pair pair, NewLeaf<C>* right);
  Outcome SplitOff(Worker& worker, const Key& key, Pair pair, LeafChange* change, NewLeaf<C>* right,
                   bool* inserted);
  static bool Divides(const Bounds& bounds, Separator separator);
  void GiveUp(const Place& place);

  TreeState<C>& tree_;
  const LeafSearch<C> search_;
  LeafWriter<C> writer_;
};

}  // namespace lodgekv::sstree
