// Writes of one pair; crash tables: README.md, Change and Update.
#include <utility>

#include "index/pmem/crash_point.h"
#include "index/sptree/backup_work.h"
#include "index/sptree/pair_writer.h"
#include "index/sptree/writes.h"

namespace lodgekv::sptree {

template <class C>
void PairWriter<C>::AwaitWriters(const Key& key, Seen seen) {
  if (IsOutdated(seen)) seen = {};  // nobody is waited for then
  for (Backoff backoff;; backoff.Pause()) {
    auto [leaf, snapshot] = std::exchange(seen, {});
    if (leaf == nullptr) leaf = tree_.top.FindForWrite(key, &snapshot);
    if (leaf == nullptr) return;  // something is damaged: nobody writes there
    if (!leaf->lock.TryUpgrade(snapshot)) continue;
    return leaf->lock.Unlock();
  }
}

template <class C>
Outcome PairWriter<C>::Put(const Held& held, const Key& key, Pair pair) {
  Worker& worker = tree_.workers.Current();
  if (tree_.buffers() || held.leaf->buffered()) {
    Held direct = held;
    if (WriteBuffered(worker, &direct, key, pair, LogOp::kPut)) return Outcome::kOk;
    return WriteToLeaf(worker, direct, pair);
  }
  return WriteToLeaf(worker, held, pair);
}

template <class C>
bool PairWriter<C>::WriteBuffered(Worker& worker, Held* held, const Key& key, Pair pair, LogOp op) {
  const bool found = held->found();
  // A batch that is applied again.
  if (C::kRecords && op == LogOp::kPut && found && held->FoundPair().value == pair.value) {
    return true;
  }
  if (buffered_.Write(worker, *held, pair, op)) {
    worker.counters.Add(op == LogOp::kDelete ? WorkerCounters::kDeletes
                        : found              ? WorkerCounters::kUpdates
                                             : WorkerCounters::kInserts);
    return true;
  }
  *held = search_.Locate(held->leaf, key);
  return false;
}

template <class C>
Outcome PairWriter<C>::WriteToLeaf(Worker& worker, const Held& held, Pair pair) {
  if (!held.found()) return Insert(worker, held.leaf, pair);
  Update(worker, held, pair);
  return Outcome::kOk;
}

// A split leaves room in the leaf, unless the pair has gone to the new one.
template <class C>
Outcome PairWriter<C>::Insert(Worker& worker, Mnode<C>* leaf, Pair pair) {
  bool inserted = false;
  if (!writer_.HasRoom(LeafChange<C>(leaf))) {
    const Outcome outcome = splitter_.Split(worker, leaf, pair, &inserted);
    if (outcome != Outcome::kOk) return outcome;
  }
  if (!inserted) {
    LeafChange<C> change(leaf);
    writer_.AddPair(&change, pair);
    Commit(&change);
  }
  worker.counters.Add(WorkerCounters::kInserts);
  return Outcome::kOk;
}

template <class C>
void PairWriter<C>::Update(Worker& worker, const Held& held, Pair pair) {
  media::Slot& slot = held.leaf->bnode->slots[held.slot];
  const uint64_t old_value = slot.value.LoadRelaxed();
  if (old_value == pair.value && C::kRecords) return;  // a batch that is applied again
  if (TreeState<C>::HasRecord(pair)) {
    LODGEKV_CRASH_POINT(tree_.medium, "sptree.record.1");
    tree_.medium.OrderStores();
  }
  tree_.commits.BeginCommit(*held.leaf, slot.value);
  tree_.medium.PersistOrdered(slot.value, pair.value,
                              [&] { LODGEKV_CRASH_POINT(tree_.medium, "sptree.update.1"); });
  tree_.commits.EndCommit(*held.leaf);
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.update.2");
  if (!tree_.medium.Canary("sptree.update.record_stays")) tree_.RetireRecord(worker, old_value);
  worker.counters.Add(WorkerCounters::kUpdates);
}

template <class C>
void PairWriter<C>::Remove(const Held& held, const Key& key) {
  Worker& worker = tree_.workers.Current();
  if (tree_.buffers() || held.leaf->buffered()) {
    Held direct = held;
    if (WriteBuffered(worker, &direct, key, held.FoundPair(), LogOp::kDelete)) return;
    return RemoveFromLeaf(worker, direct, key);
  }
  RemoveFromLeaf(worker, held, key);
}

template <class C>
void PairWriter<C>::RemoveFromLeaf(Worker& worker, const Held& held, const Key& key) {
  const uint64_t old_value = held.FoundPair().value;
  LeafChange<C> change(held.leaf);
  LeafWriter<C>::Drop(&change, static_cast<unsigned>(held.slot));
  Commit(&change);
  merger_.NoteIfSparse(worker, *held.leaf, key);
  tree_.RetireRecord(worker, old_value);
  worker.counters.Add(WorkerCounters::kDeletes);
}

// Of one leaf, alone.
template <class C>
void PairWriter<C>::Commit(LeafChange<C>* change) {
  pmem::Medium& medium = tree_.medium;
  if (medium.Canary("sptree.change.bitmap_first")) writer_.Commit(*change);
  writer_.Stage(change);
  LODGEKV_CRASH_POINT(medium, "sptree.change.1");
  if (LeafWriter<C>::FencesFirst(*change)) medium.OrderStores();
  LODGEKV_CRASH_POINT(medium, "sptree.change.2");
  writer_.CommitDurably(*change, [&] { LODGEKV_CRASH_POINT(medium, "sptree.change.3"); });
  writer_.Publish(*change);
  LODGEKV_CRASH_POINT(medium, "sptree.change.4");
}

template <class C>
bool PairWriter<C>::DoDeferred(Worker& worker) {
  // Data that the failed sync should have made durable may still refer to them: a batch's root.
  if (tree_.medium.failed()) return false;
  if (!worker.sparse.empty()) [[unlikely]]
    merger_.MergeSparse(worker);
  if (tree_.buffers()) BufferReclaimer<C>(tree_, worker).EmptyOldLogs(1);
  BackupWork<C>(tree_).RequestIfDue();
  // Under a tracer space is reused as soon as possible, and what recovery left is done in steps.
  if (worker.retired.full() || tree_.medium.tracer() != nullptr) {
    worker.retired.HandTo(tree_.reclaimer);
    tree_.rest.StepInPlace();
  }
  return !tree_.medium.failed();
}

// True: space was found that nobody owned, or retired records were freed.
template <class C>
bool PairWriter<C>::ReclaimSpace() {
  if (tree_.medium.failed()) return false;
  bool found = tree_.rest.FinishNow();
  if (tree_.buffers()) {
    Worker& worker = tree_.workers.Current();
    found |= BufferReclaimer<C>(tree_, worker).FlushSome();
    if (!worker.sparse.empty()) merger_.MergeSparse(worker);
  }
  if (!tree_.rest.unfinished()) found |= tree_.backup.GiveUp();
  return tree_.workers.Current().retired.Drain(tree_.reclaimer) || found;
}

template class PairWriter<Fixed64Codec>;
template class PairWriter<BytesCodec>;

}  // namespace lodgekv::sptree

namespace lodgekv {

template class PointWrites<Fixed64Codec, sptree::PairWriter<Fixed64Codec>>;
template class PointWrites<BytesCodec, sptree::PairWriter<BytesCodec>>;

}  // namespace lodgekv
