// Insert, by entry moving (LB+-Tree 3.2); its crash table: README.md, Change.
#include <bit>

#include "index/sstree/leaf_writer.h"

namespace lodgekv::sstree {

template <class C>
void LeafWriter<C>::AddPair(Worker& worker, LeafChange* change, Pair pair, uint16_t hash,
                            Moving moving) {
  change->fences |= tree_.HasRecord(pair);
  const uint32_t free_slots = change->FreeIn(0, tree_.usable_slots());
  if (free_slots == 0) return FillHole(worker, change, pair, hash, moving);
  const unsigned slot = ChooseSlot(kSlotsOfLine, free_slots);
  StoreInHead(change, slot, pair, FingerprintOf(hash));
  if (LineOfSlot(slot) != 0) MakeRoomBesideWord(worker, change, {free_slots, slot, moving});
}

template <class C>
void LeafWriter<C>::MakeRoomBesideWord(Worker& worker, LeafChange* change, FreeSlots to) {
  MoveEntries(worker, change, to, [&](unsigned slot, Pair pair, unsigned source) {
    StoreInHead(change, slot, pair, change->fingerprints[source]);
  });
}

// The pair, and those of the head's first line that find room, in the first overflow subnode with a
// free slot.
template <class C>
void LeafWriter<C>::FillHole(Worker& worker, LeafChange* change, Pair pair, uint16_t hash,
                             Moving moving) {
  Overflow overflow = {1, change->head, search_.SubnodeOf(*change, 1)};
  while (change->FreeIn(overflow.number, tree_.usable_slots()) == 0) {
    overflow = {overflow.number + 1, overflow.at, tree_.NextOf(*overflow.at)};
  }
  const uint32_t free_slots = change->FreeIn(overflow.number, tree_.usable_slots());
  const unsigned slot = ChooseSlot(kSlotsOfLine, free_slots);
  StoreInOverflow(change, overflow, slot, pair, hash);
  MoveEntries(worker, change, {free_slots, slot, moving}, [&](unsigned to, Pair moved, unsigned) {
    StoreInOverflow(change, overflow, to, moved, tree_.codec.HashOf(moved));
  });
  RenewStaleFilter(change);
  worker.counters.Add(WorkerCounters::kFilledHoles);
}

// Moves pairs of the head's first line to slots `to`, so that the next changes find room beside the
// word.
template <class C>
template <class StoreAt>
void LeafWriter<C>::MoveEntries(Worker& worker, LeafChange* change, FreeSlots to,
                                StoreAt store_at) {
  if (!tree_.parameters.entry_moving) return;
  unsigned moved = 0;
  uint32_t from = change->head_slots() & SlotsOfLine(0);
  for (; from != 0 && !to.empty(); from &= from - 1, ++moved) {
    const auto source = static_cast<unsigned>(std::countr_zero(from));
    store_at(to.Take(), SlotPair(*change->head, source), source);
    Drop(change, source);
  }
  worker.counters.Add(WorkerCounters::kMovedEntries, moved);
}

template <class C>
void LeafWriter<C>::StoreInHead(LeafChange* change, unsigned slot, Pair pair, uint8_t fingerprint) {
  media::Slot& at = change->head->slots[slot];
  tree_.medium.StoreTwo(at.key, pair.key, at.value, pair.value);
  change->fingerprints[slot] = fingerprint;
  change->Add(0, slot);
}

// The fingerprint goes to the subnode before: that of a slot which is not valid may change.
template <class C>
void LeafWriter<C>::StoreInOverflow(LeafChange* change, const Overflow& overflow, unsigned slot,
                                    Pair pair, uint16_t hash) {
  media::Slot& at = overflow.at->slots[slot];
  tree_.medium.StoreTwo(at.key, pair.key, at.value, pair.value);
  pmem::Word& tags = overflow.before->fingerprints[slot / 8];
  const unsigned shift = slot % 8 * 8;
  tree_.medium.Store(tags, (tags.LoadRelaxed() & ~(uint64_t{0xff} << shift)) |
                               uint64_t{FingerprintOf(hash)} << shift);
  change->Write(overflow.number - 1, 0);
  change->Add(overflow.number, slot);
  change->filter |= Leaf::FilterBits(hash);
}

template class LeafWriter<Fixed64Codec>;
template class LeafWriter<BytesCodec>;

}  // namespace lodgekv::sstree
