// Writes of one pair; crash tables: README.md, Change and Update.
#include <bit>
#include <utility>

#include "index/pmem/crash_point.h"
#include "index/sstree/pair_writer.h"
#include "index/sstree/writes.h"

namespace lodgekv::sstree {

template <class C>
void PairWriter<C>::AwaitWriters(const Key& key, Seen seen) {
  if (IsOutdated(seen)) seen = {};  // nobody is waited for then
  for (Backoff backoff;; backoff.Pause()) {
    auto [leaf, snapshot] = std::exchange(seen, {});
    if (leaf == nullptr) leaf = tree_.inner.DescendForWrite(key, &snapshot);
    if (!leaf->lock.TryUpgrade(snapshot)) continue;
    return leaf->lock.Unlock();
  }
}

template <class C>
Outcome PairWriter<C>::Put(const LockedLeaf& locked, const Key& key, Pair pair) {
  Worker& worker = tree_.workers.Current();
  if (!locked.found()) return Insert(worker, locked.leaf, key, pair);
  Update(worker, locked, key, pair);
  return Outcome::kOk;
}

template <class C>
Outcome PairWriter<C>::Insert(Worker& worker, Leaf* leaf, const Key& key, Pair pair) {
  if (!head_writer_.Insert(worker, leaf, pair, FingerprintOf(key.hash))) {
    const Outcome outcome = InsertOtherwise(worker, leaf, key, pair);
    if (outcome != Outcome::kOk) return outcome;
  }
  worker.counters.Add(WorkerCounters::kInserts);
  return Outcome::kOk;
}

template <class C>
Outcome PairWriter<C>::InsertOtherwise(Worker& worker, Leaf* leaf, const Key& key, Pair pair) {
  using Room = typename LeafWriter<C>::Room;
  for (;;) {
    LeafChange change;
    writer_.Begin(leaf, &change);
    const Room room = writer_.RoomIn(change);
    if (room == Room::kNone) {
      bool inserted = false;
      const Outcome outcome = splitter_.Split(worker, leaf, key, pair, &inserted);
      if (inserted || outcome != Outcome::kOk) return outcome;
      continue;
    }
    if (room == Room::kReplace && !writer_.ReplaceHead(worker, &change)) return Outcome::kPoolFull;
    writer_.AddPair(worker, &change, pair, key.hash, Moving::kAnywhere);
    Commit(worker, &change);
    return Outcome::kOk;
  }
}

// An overflow slot's pair moves to the head, if that has a free slot; otherwise the value changes
// in its slot.
template <class C>
void PairWriter<C>::Update(Worker& worker, const LockedLeaf& locked, const Key& key, Pair pair) {
  const uint64_t old_value = locked.FoundPair().value;
  if (old_value == pair.value && C::kRecords) return;  // a batch that is applied again
  const uint32_t free_slots = tree_.usable_slots() & ~locked.leaf->place.slots();
  if (locked.place.in_head() || free_slots == 0 || !tree_.parameters.item_movement) {
    UpdateInPlace(worker, locked, pair);
  } else {
    LeafChange change;
    writer_.Begin(locked.leaf, &change);
    writer_.MoveItem(worker, &change, locked.place, pair, key.hash);
    Commit(worker, &change);
  }
  if (!tree_.medium.Canary("sstree.update.record_stays")) tree_.RetireRecord(worker, old_value);
  worker.counters.Add(WorkerCounters::kUpdates);
}

template <class C>
void PairWriter<C>::UpdateInPlace(Worker& worker, const LockedLeaf& locked, Pair pair) {
  FenceRecord(pair);
  media::Slot& slot = *locked.place.slot;
  tree_.commits.BeginCommit(*locked.leaf, slot.value);
  tree_.medium.PersistOrdered(slot.value, pair.value,
                              [&] { LODGEKV_CRASH_POINT(tree_.medium, "sstree.update.1"); });
  tree_.FreeFenced(worker);
  tree_.commits.EndCommit(*locked.leaf);
  LODGEKV_CRASH_POINT(tree_.medium, "sstree.update.2");
}

template <class C>
void PairWriter<C>::Remove(const LockedLeaf& locked, const Key& key) {
  Worker& worker = tree_.workers.Current();
  const uint64_t old_value = locked.FoundPair().value;
  if (!head_writer_.Remove(worker, locked.leaf, static_cast<unsigned>(locked.place.bit))) {
    RemoveOtherwise(worker, locked, key);
  }
  tree_.RetireRecord(worker, old_value);
  worker.counters.Add(WorkerCounters::kDeletes);
}

template <class C>
void PairWriter<C>::RemoveOtherwise(Worker& worker, const LockedLeaf& locked, const Key& key) {
  if (dropper_.DropWithLast(worker, locked.leaf, key)) return;
  LeafChange change;
  writer_.Begin(locked.leaf, &change);
  writer_.Drop(&change, static_cast<unsigned>(locked.place.bit));
  Commit(worker, &change);
  if (change.valid == 0) dropper_.Note(worker, key);
}

// Of one leaf, alone.
template <class C>
void PairWriter<C>::Commit(Worker& worker, LeafChange* change) {
  pmem::Medium& medium = tree_.medium;
  if (medium.Canary("sstree.change.word_first")) {
    medium.Store(change->head->word, SealedWord(change->valid));
  }
  writer_.Stage(change);
  LODGEKV_CRASH_POINT(medium, "sstree.change.1");
  if (writer_.FencesFirst(*change)) medium.OrderStores();
  LODGEKV_CRASH_POINT(medium, "sstree.change.2");
  writer_.Commit(change);
  LODGEKV_CRASH_POINT(medium, "sstree.change.3");
  tree_.FenceAndFree(worker);
  writer_.Publish(worker, change);
  LODGEKV_CRASH_POINT(medium, "sstree.change.4");
}

template <class C>
void PairWriter<C>::FenceRecord(Pair pair) {
  if constexpr (C::kRecords) {
    if (C::IsRecord(pair.value)) {
      LODGEKV_CRASH_POINT(tree_.medium, "sstree.record.1");
      tree_.medium.OrderStores();
    }
  }
}

template <class C>
bool PairWriter<C>::DoDeferred(Worker& worker) {
  // Data that the failed sync should have made durable may still refer to them: a batch's root.
  if (tree_.medium.failed()) return false;
  // Under a tracer space is reused as soon as possible, and what recovery left is done in steps.
  if (worker.retired.full() || tree_.medium.tracer() != nullptr) {
    worker.retired.HandTo(tree_.reclaimer);
    tree_.rest.StepInPlace();
  }
  if (HasEmptied(worker)) dropper_.DropEmptied(worker);
  return !tree_.medium.failed();
}

// True: space was found that nobody owned, or retired records or subnodes were freed.
template <class C>
bool PairWriter<C>::ReclaimSpace() {
  if (tree_.medium.failed()) return false;
  Worker& worker = tree_.workers.Current();
  const bool cut_off = !worker.cut_off.empty();
  if (cut_off) tree_.FenceAndFree(worker);
  const bool found = tree_.rest.FinishNow();
  return worker.retired.Drain(tree_.reclaimer) || found || cut_off;
}

template class PairWriter<Fixed64Codec>;
template class PairWriter<BytesCodec>;

}  // namespace lodgekv::sstree

namespace lodgekv {

template class PointWrites<Fixed64Codec, sstree::PairWriter<Fixed64Codec>>;
template class PointWrites<BytesCodec, sstree::PairWriter<BytesCodec>>;

}  // namespace lodgekv
