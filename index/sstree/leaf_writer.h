// Changes of one leaf (SSTree III-B and III-C): first everything is stored where nothing is valid,
// then one 8-byte store commits it. That is a store of the head's word, or, if the head is a new
// one, of its next pointer (head replacement). The protocols are the crash tables Change, Head
// replacement, Item movement and Subnode reclamation in README.md.
//
// Begin, then changes in any number, then Stage, a fence if FencesFirst, Commit, a fence, Publish.
//
// INVARIANT: the free tag of an overflow subnode is durable before the word that lets go of it.
//
// Thread-safe for different leaves; for one leaf, only the holder of its lock may call.
#pragma once

#include <cstdint>

#include "index/sstree/leaf_change.h"
#include "index/sstree/leaf_search.h"
#include "index/sstree/tree_state.h"

namespace lodgekv::sstree {

template <class C>
class LeafWriter {
 public:
  using Key = typename C::Key;

  explicit LeafWriter(TreeState<C>& tree) : tree_(tree), search_(tree) {}

  void Begin(Leaf* leaf, LeafChange* change) const;

  // What is free for a pair that is not yet in the leaf.
  enum class Room : uint8_t {
    kFree,     // a slot
    kReplace,  // none, but the head can be replaced
    kLater,    // slots that are valid until the commit
    kNone      // the leaf has to split
  };
  Room RoomIn(const LeafChange& change) const;
  // False: the pool is full.
  bool ReplaceHead(Worker& worker, LeafChange* change);
  // Of a change with a free slot.
  void AddPair(Worker& worker, LeafChange* change, Pair pair, uint16_t hash, Moving moving);
  static void Drop(LeafChange* change, unsigned bit) { change->valid &= ~(uint64_t{1} << bit); }
  // The pair at `place`, an overflow slot, gets a new value in the head, which has a free slot.
  void MoveItem(Worker& worker, LeafChange* change, const Place& place, Pair pair, uint16_t hash);
  // The place of the key in the change, with what has joined.
  Place FindPlace(const LeafChange& change, const Key& key) const;

  // Until then the filter keeps the bits of pairs that have gone from overflow subnodes.
  void RenewFilter(LeafChange* change) const;

  // Everything that the commit relies on is flushed, or (the caller's new leaves) fenced.
  void Stage(LeafChange* change);
  bool FencesFirst(const LeafChange& change) const;
  void Commit(LeafChange* change);
  void Publish(Worker& worker, LeafChange* change);

  // Bits of the slots that can be used, in all subnodes that a leaf has.
  uint64_t UsableBits(unsigned subnodes) const;

 private:
  struct Overflow {
    unsigned number;  // of the subnode in its leaf
    media::Subnode* before;
    media::Subnode* at;
  };

  void StoreInHead(LeafChange* change, unsigned slot, Pair pair, uint8_t fingerprint);
  void StoreInOverflow(LeafChange* change, const Overflow& overflow, unsigned slot, Pair pair,
                       uint16_t hash);
  void FillHole(Worker& worker, LeafChange* change, Pair pair, uint16_t hash, Moving moving);
  void MakeRoomBesideWord(Worker& worker, LeafChange* change, FreeSlots to);
  template <class StoreAt>
  void MoveEntries(Worker& worker, LeafChange* change, FreeSlots to, StoreAt store_at);
  unsigned MoveNeighbours(LeafChange* change, const Place& place, FreeSlots* to);
  uint64_t FilterOf(const media::Subnode& subnode, uint32_t slots) const;
  void RenewStaleFilter(LeafChange* change) const;
  uint64_t NextOfHead(const LeafChange& change) const;
  void StoreWord(const LeafChange& change);
  void TagLast(LeafChange* change);
  bool CutsWithCommit(const LeafChange& change) const {
    return change.last != nullptr && change.before_last == change.head &&
           !tree_.medium.strict_order() && !tree_.medium.long_fences();
  }
  void CutOffLast(Worker& worker, LeafChange* change);

  TreeState<C>& tree_;
  const LeafSearch<C> search_;
};

}  // namespace lodgekv::sstree
