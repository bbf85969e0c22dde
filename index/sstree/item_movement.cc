// Out-of-place item movement (SSTree III-C, Fig. 4); its crash table: README.md, Item movement.
#include <bit>

#include "index/sstree/leaf_writer.h"

namespace lodgekv::sstree {

template <class C>
void LeafWriter<C>::MoveItem(Worker& worker, LeafChange* change, const Place& place, Pair pair,
                             uint16_t hash) {
  const uint32_t free_slots = change->FreeIn(0, tree_.usable_slots());
  const unsigned slot = ChooseSlot(kSlotsOfLine, free_slots);
  change->fences |= tree_.HasRecord(pair);
  StoreInHead(change, slot, pair, FingerprintOf(hash));
  Drop(change, static_cast<unsigned>(place.bit));
  change->moves = true;
  FreeSlots to(free_slots, slot, Moving::kInLine);
  unsigned moved = 1;
  if (tree_.parameters.several_items) moved += MoveNeighbours(change, place, &to);
  worker.counters.Add(WorkerCounters::kMovedItems, moved);
  if (LineOfSlot(slot) != 0) MakeRoomBesideWord(worker, change, to);
}

// Moves pairs that are in the line of `place` to slots `*to` of the head. Returns how many.
template <class C>
unsigned LeafWriter<C>::MoveNeighbours(LeafChange* change, const Place& place, FreeSlots* to) {
  const unsigned number = static_cast<unsigned>(place.bit) / kSubnodeSlots;
  const unsigned slot = static_cast<unsigned>(place.bit) % kSubnodeSlots;
  const media::Subnode* subnode = search_.SubnodeOf(*change, number);
  uint32_t from = SlotsOf(change->valid, number) & SlotsOfLine(LineOfSlot(slot));
  unsigned moved = 0;
  for (; from != 0 && !to->empty(); from &= from - 1, ++moved) {
    const auto source = static_cast<unsigned>(std::countr_zero(from));
    const Pair pair = SlotPair(*subnode, source);
    StoreInHead(change, to->Take(), pair, FingerprintOf(tree_.codec.HashOf(pair)));
    Drop(change, number * kSubnodeSlots + source);
  }
  return moved;
}

template class LeafWriter<Fixed64Codec>;
template class LeafWriter<BytesCodec>;

}  // namespace lodgekv::sstree
