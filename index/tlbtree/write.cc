// Writes of one pair.
#include "index/tlbtree/writes.h"

namespace lodgekv::tlbtree {

template <class C>
void PairWriter<C>::AwaitWriters(const Key& key, Seen seen) {
  if (IsOutdated(seen)) seen = {};  // nobody is waited for then
  for (Backoff backoff;; backoff.Pause()) {
    Seen at = std::exchange(seen, {});
    if (at.leaf == nullptr) at = Seek(key);
    if (at.leaf == nullptr) return;
    VersionLock& lock = tree_.locks.Of(at.leaf);
    if (!lock.TryUpgrade(at.snapshot)) continue;
    const bool covers = tree_.search.Covers(at.leaf, key);
    lock.Unlock();
    if (covers) return;
  }
}

template <class C>
Outcome PairWriter<C>::Put(const Held& locked, const Key& key, Pair pair) {
  Worker& worker = tree_.workers.Current();
  if (locked.found()) {
    writer_.Update(worker, locked, pair);
    return Outcome::kOk;
  }
  if (writer_.Insert(worker, locked, pair)) return Outcome::kOk;
  return splitter_.Split(worker, locked, key, pair);
}

template <class C>
void PairWriter<C>::Remove(const Held& locked, const Key& key) {
  Worker& worker = tree_.workers.Current();
  writer_.Remove(worker, locked);
  const unsigned left = NodeState(locked.leaf->state.LoadRelaxed()).count();
  if (merger_.BecameSparse(left + 1, left)) LeafMerger<C>::Note(worker, C::TextOf(key));
}

template <class C>
bool PairWriter<C>::DoDeferred(Worker& worker) {
  // Data that the failed sync should have made durable may still refer to them: a batch's root.
  if (tree_.medium.failed()) return false;
  if (IsUntidy(worker)) TidyUp(worker);
  // Under a tracer space is reused as soon as possible, and what recovery left is done in steps.
  if (worker.retired.full() || tree_.medium.tracer() != nullptr) {
    worker.retired.HandTo(tree_.reclaimer);
    tree_.rest.StepInPlace();
  }
  return !tree_.medium.failed();
}

template <class C>
bool PairWriter<C>::SetAside(size_t puts) {
  Worker& worker = tree_.workers.Current();
  worker.has_set_aside = puts > 0;
  return tree_.space.SetAside(worker.spare_leaves, puts);
}

// A leaf can always be divided beside the new key, by a bound that is one byte longer at most.
template <class C>
bool PairWriter<C>::SetLowsAside(const LongPuts& puts) {
  if (!C::kRecords) return true;
  Worker& worker = tree_.workers.Current();
  const uint64_t bytes = RecordBytes(puts.longest + 1, 0, false);
  if (bytes > worker.spare_low_bytes) {
    Trim(worker, worker.spare_leaves.size(), 0);
    worker.spare_low_bytes = bytes;
  }
  while (worker.spare_lows.size() < puts.count) {
    const pmem::Offset record =
        tree_.slab.Allocate(worker.spare_low_bytes, pmem::ReservePolicy::kKeep);
    if (record == 0) return false;
    worker.spare_lows.push_back(record);
  }
  return true;
}

// What the next batch is likely to need as well is kept, but not in a tight pool. It has to be set
// aside there, too: a pool that is not tight may be full by the time a batch has committed its
// intent, if others write.
template <class C>
void PairWriter<C>::FreeSpare() {
  constexpr size_t kKeptLeaves = 128;
  constexpr uint64_t kKeptLowBytes = 8192;
  Worker& worker = tree_.workers.Current();
  worker.has_set_aside = false;
  const bool keep = !tree_.pool.tight() && tree_.medium.tracer() == nullptr;
  Trim(worker, keep ? kKeptLeaves : 0, keep ? kKeptLowBytes : 0);
}

// Of the records for bounds, at most so many bytes are left.
template <class C>
void PairWriter<C>::Trim(Worker& worker, size_t leaves, uint64_t low_bytes) {
  for (; worker.spare_leaves.size() > leaves; worker.spare_leaves.pop_back()) {
    tree_.nodes.Free(worker.spare_leaves.back());
  }
  while (worker.spare_lows.size() * worker.spare_low_bytes > low_bytes) {
    tree_.slab.Free(worker.spare_lows.back());
    worker.spare_lows.pop_back();
  }
  if (worker.spare_lows.empty()) worker.spare_low_bytes = 0;
}

// What waits until the thread holds no lock: entries above leaves, and merges.
template <class C>
void PairWriter<C>::TidyUp(Worker& worker) {
  for (const std::string& text : tree_.sweep.TakeDead()) sub_indices_.DropDead(text);
  std::vector<std::string> sparse;
  sparse.swap(worker.sparse);
  for (const std::string& text : sparse) merger_.Merge(text);
  sub_indices_.List(std::exchange(worker.unlisted, {}));
  worker.stepped_aside = false;
  rebuild_.RequestIfDue();
}

// True: space was found that nobody owned, or retired records were freed.
template <class C>
bool PairWriter<C>::ReclaimSpace() {
  if (tree_.medium.failed()) return false;
  Worker& worker = tree_.workers.Current();
  const bool kept =
      !worker.has_set_aside && !(worker.spare_leaves.empty() && worker.spare_lows.empty());
  if (kept) Trim(worker, 0, 0);
  const bool found = tree_.rest.FinishNow();
  return worker.retired.Drain(tree_.reclaimer) || found || kept;
}

template class PairWriter<Fixed64Codec>;
template class PairWriter<BytesCodec>;

}  // namespace lodgekv::tlbtree

namespace lodgekv {

template class PointWrites<Fixed64Codec, tlbtree::PairWriter<Fixed64Codec>>;
template class PointWrites<BytesCodec, tlbtree::PairWriter<BytesCodec>>;

}  // namespace lodgekv
