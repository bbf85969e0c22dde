// Writes of one pair; crash table of an update: README.md, Update.
#include <utility>

#include "index/lbtree/pair_writer.h"
#include "index/lbtree/writes.h"
#include "index/node/search_form.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

template <class C>
void PairWriter<C>::AwaitWriters(const Key& key, Seen seen) {
  if (IsOutdated(seen)) seen = {};  // nobody is waited for then
  for (Backoff backoff;; backoff.Pause()) {
    auto [leaf, snapshot] = std::exchange(seen, {});
    if (leaf == nullptr) leaf = tree_.inner.DescendForWrite(key, &snapshot);
    VersionLock& lock = tree_.locks.Of(leaf);
    if (!lock.TryUpgrade(snapshot)) continue;
    return lock.Unlock();
  }
}

template <class C>
Outcome PairWriter<C>::Put(const LockedLeaf& locked, const Key& key, Pair pair) {
  Worker& worker = tree_.workers.Current();
  if (locked.found()) {
    Update(worker, locked, pair);
    return Outcome::kOk;
  }
  if (writer_.Insert(worker, locked, {pair, FingerprintOf(key.hash)})) return Outcome::kOk;
  return splitter_.Split(worker, locked, key, pair);
}

template <class C>
void PairWriter<C>::Remove(const LockedLeaf& locked, const Key& key) {
  remover_.Remove(tree_.workers.Current(), locked, key);
}

template <class C>
void PairWriter<C>::Update(Worker& worker, const LockedLeaf& locked, Pair pair) {
  media::Word& value = locked.place.at->value;
  const uint64_t old_value = value.LoadRelaxed();
  if (old_value == pair.value && C::kRecords) return;  // a batch that is applied again
  FenceRecord(pair);
  pmem::Medium& medium = tree_.medium;
  tree_.locks.BeginCommit(*locked.lock, value);
  medium.PersistOrdered(value, pair.value, [&] { LODGEKV_CRASH_POINT(medium, "lbtree.update.1"); });
  tree_.locks.EndCommit(*locked.lock);
  LODGEKV_CRASH_POINT(medium, "lbtree.update.2");
  if (!medium.Canary("lbtree.update.record_stays")) tree_.RetireRecord(worker, old_value);
  worker.counters.Add(WorkerCounters::kUpdates);
}

template <class C>
void PairWriter<C>::FenceRecord(Pair pair) {
  if constexpr (C::kRecords) {
    if (C::IsRecord(pair.value)) {
      LODGEKV_CRASH_POINT(tree_.medium, "lbtree.record.1");
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
  if (!worker.emptied.empty()) [[unlikely]]
    remover_.UnlinkEmptied(worker);
  return !tree_.medium.failed();
}

// True: space was found that nobody owned, or retired records were freed.
template <class C>
bool PairWriter<C>::ReclaimSpace() {
  if (tree_.medium.failed()) return false;
  const bool found = tree_.rest.FinishNow();
  return tree_.workers.Current().retired.Drain(tree_.reclaimer) || found;
}

template class PairWriter<Fixed64Codec>;
template class PairWriter<BytesCodec>;

}  // namespace lodgekv::lbtree

namespace lodgekv {

template class PointWrites<Fixed64Codec, lbtree::PairWriter<Fixed64Codec>>;
template class PointWrites<BytesCodec, lbtree::PairWriter<BytesCodec>>;

}  // namespace lodgekv
