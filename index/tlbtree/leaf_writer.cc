#include "index/tlbtree/leaf_writer.h"

#include <bit>

#include "index/pmem/crash_point.h"

namespace lodgekv::tlbtree {

template <class C>
void LeafWriter<C>::CountInsert(Worker& worker, bool beside_state) {
  worker.counters.Add(beside_state ? WorkerCounters::kOneLineInserts
                                   : WorkerCounters::kTwoLineInserts);
}

// Moves the pairs beside the state word, where no slot is free, to the slots `free`, first to those
// in `line`, which is written anyway: so the next inserts need one line and one fence (entry moving
// of LB+-Tree 3.2). A pair that moves to another line costs that line now, and saves it later.
// Returns the lines written.
template <class C>
uint32_t LeafWriter<C>::MoveEntries(Worker& worker, Node* leaf, uint32_t free, unsigned line,
                                    NodeState* state) {
  uint32_t lines = 1u << line;
  if (!tree_.parameters.entry_moving) return lines;
  unsigned moved = 0;
  uint32_t from = kSlotsOfLine<C>[0];
  for (; from != 0 && free != 0; from &= from - 1, ++moved) {
    const auto source = static_cast<unsigned>(std::countr_zero(from));
    const uint32_t here = free & kSlotsOfLine<C>[line];
    const auto to = static_cast<unsigned>(std::countr_zero(here != 0 ? here : free));
    free &= ~(uint32_t{1} << to);
    StoreSlot(leaf, to,
              {leaf->slots[source].key.LoadRelaxed(), leaf->slots[source].value.LoadRelaxed()});
    lines |= 1u << LineOfSlot<C>(to);
    state->Move(source, to);
  }
  worker.counters.Add(WorkerCounters::kMovedEntries, moved);
  if (tree_.medium.Canary("tlbtree.insert.moved_not_flushed")) return 1u << line;
  return lines;
}

template <class C>
bool LeafWriter<C>::InsertInto(Worker& worker, const LockedLeaf<C>& locked, Pair pair,
                               uint32_t usable) {
  pmem::Medium& medium = tree_.medium;
  Node* leaf = locked.leaf;
  NodeState state(leaf->state.LoadRelaxed());
  const uint32_t free = usable & ~state.Slots();
  if (free == 0) return false;
  const unsigned slot = ChooseSlot(kSlotsOfLine<C>, free);
  const unsigned line = LineOfSlot<C>(slot);
  const bool beside = line == 0;
  state.Insert(locked.place, slot);
  if (medium.Canary("tlbtree.insert.state_first")) medium.Store(leaf->state, state.word());
  StoreSlot(leaf, slot, pair);
  uint32_t lines = medium.strict_order() ? 1 : 0;
  if (!beside) lines = MoveEntries(worker, leaf, free & ~(uint32_t{1} << slot), line, &state);
  const bool fence = lines != 0 || tree_.HasRecord(pair);
  medium.FlushLines(leaf, lines);
  LODGEKV_CRASH_POINT(medium, "tlbtree.insert.1");
  if (fence) medium.OrderStores();
  LODGEKV_CRASH_POINT(medium, "tlbtree.insert.2");
  tree_.locks.leaves().BeginCommit(*locked.lock, leaf->state);
  if (medium.Canary("tlbtree.insert.two_stores")) {
    NodeState half(leaf->state.LoadRelaxed());
    half.Insert(half.count(), slot);
    medium.Store(leaf->state, half.word());
  }
  medium.PersistOrdered(leaf->state, state.word(),
                        [&] { LODGEKV_CRASH_POINT(medium, "tlbtree.insert.3"); });
  tree_.locks.leaves().EndCommit(*locked.lock);
  LODGEKV_CRASH_POINT(medium, "tlbtree.insert.4");
  CountInsert(worker, beside);
  return true;
}

template <class C>
void LeafWriter<C>::Update(Worker& worker, const LockedLeaf<C>& locked, Pair pair) {
  pmem::Medium& medium = tree_.medium;
  media::Slot& slot = locked.leaf->slots[locked.slot];
  const uint64_t old_value = slot.value.LoadRelaxed();
  if (old_value == pair.value && C::kRecords) return;  // a batch that is applied again
  FenceRecord(pair);
  tree_.HoldRecord(old_value);
  tree_.locks.leaves().BeginCommit(*locked.lock, slot.value);
  medium.PersistOrdered(slot.value, pair.value,
                        [&] { LODGEKV_CRASH_POINT(medium, "tlbtree.update.1"); });
  tree_.locks.leaves().EndCommit(*locked.lock);
  LODGEKV_CRASH_POINT(medium, "tlbtree.update.2");
  if (!medium.Canary("tlbtree.update.record_stays")) tree_.RetireRecord(worker, old_value);
  worker.counters.Add(WorkerCounters::kUpdates);
}

template <class C>
void LeafWriter<C>::FenceRecord(Pair pair) {
  if constexpr (C::kRecords) {
    if (C::IsRecord(pair.value)) {
      LODGEKV_CRASH_POINT(tree_.medium, "tlbtree.record.1");
      tree_.medium.OrderStores();
    }
  }
}

template <class C>
void LeafWriter<C>::Remove(Worker& worker, const LockedLeaf<C>& locked) {
  pmem::Medium& medium = tree_.medium;
  Node* leaf = locked.leaf;
  const uint64_t old_value = locked.FoundPair().value;
  NodeState state(leaf->state.LoadRelaxed());
  state.Remove(locked.place);
  tree_.HoldRecord(old_value);
  tree_.locks.leaves().BeginCommit(*locked.lock, leaf->state);
  medium.PersistWord(leaf->state, state.word(),
                     [&] { LODGEKV_CRASH_POINT(medium, "tlbtree.delete.1"); });
  tree_.locks.leaves().EndCommit(*locked.lock);
  LODGEKV_CRASH_POINT(medium, "tlbtree.delete.2");
  tree_.RetireRecord(worker, old_value);
  worker.counters.Add(WorkerCounters::kDeletes);
}

template class LeafWriter<Fixed64Codec>;
template class LeafWriter<BytesCodec>;

}  // namespace lodgekv::tlbtree
