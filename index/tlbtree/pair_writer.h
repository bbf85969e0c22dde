// Writes of one pair, each durable on return, and the other operations that the write paths need
// from a tree: the Tree of write_tree.h. The protocols are those of Update, Insert, Split and
// Delete in README.md.
//
// INVARIANT: a record is durable before a store links it.
//
// Thread-safe; for one leaf, only the holder of its lock may call Put and Remove.
#pragma once

#include <span>
#include <utility>

#include "index/node/epoch.h"
#include "index/node/search_form.h"
#include "index/node/write_tree.h"
#include "index/tlbtree/leaf_merger.h"
#include "index/tlbtree/leaf_splitter.h"
#include "index/tlbtree/leaf_writer.h"
#include "index/tlbtree/top_rebuild.h"
#include "index/tlbtree/write_group.h"

namespace lodgekv::tlbtree {

// Where a key's leaf was when Seek looked, or, of SeekEach, a leaf not to the right of that:
// whoever locks it looks at its upper bound (NodeSearch::Covers).
template <class C>
struct SeenNode : SeenLeaf<media::Node<C>> {
  Low low;
};

template <class C>
class PairWriter {
 public:
  using Node = media::Node<C>;
  using Key = typename C::Key;
  using Held = LockedLeaf<C>;
  using Seen = SeenNode<C>;
  using Group = WriteGroup<C>;

  explicit PairWriter(TreeState<C>& tree)
      : tree_(tree),
        stages_(tree.pool, tree.slab, tree.codec, tree.values),
        descent_(tree),
        writer_(tree),
        splitter_(tree),
        merger_(tree),
        sub_indices_(tree),
        rebuild_(tree) {}

  // A leaf of null: something is damaged on the way to it.
  template <class Form = SearchByPointer>
  Seen Seek(const Key& key) const;
  template <class Form>
  void SeekEach(std::span<SoughtKey<Key, Seen>> keys) const;
  void FetchRecords(const Key& key, const Seen& seen) const requires C::kRecords {
    if (seen.leaf != nullptr) tree_.search.FetchRecords(seen.leaf, key);
  }
  template <class Form = SearchByPointer>
  Held Lock(const Key& key, bool of_batch, Seen seen = {});
  void AwaitWriters(const Key& key, Seen seen);
  Outcome Put(const Held& locked, const Key& key, Pair pair);
  void Remove(const Held& locked, const Key& key);
  bool AfterWrite() {
    Worker& worker = tree_.workers.Current();
    if (IsUntidy(worker) || worker.retired.full() || tree_.medium.unusual()) [[unlikely]]
      return DoDeferred(worker);
    return true;
  }
  bool ReclaimSpace();

  // For atomic batches.
  bool SetAside(size_t puts);
  bool SetAside(size_t puts, const LongPuts& long_puts) {
    return SetAside(puts) && SetLowsAside(long_puts);
  }
  void FreeSpare();
  void CountBatch() { tree_.workers.Current().counters.Add(WorkerCounters::kBatches); }

  OpStages<C>& stages() { return stages_; }
  pmem::Medium& medium() { return tree_.medium; }
  KeyLocks& key_locks() { return tree_.key_locks; }
  BatchIntents& intents() { return tree_.intents; }
  AppliedIndex& applied() { return tree_.applied; }
  TreeState<C>& state() { return tree_; }
  bool BecameSparse(unsigned before, unsigned after) const {
    return merger_.BecameSparse(before, after);
  }

 private:
  bool IsUntidy(const Worker& worker) const {
    return worker.stepped_aside || tree_.sweep.found_dead() || !worker.unlisted.empty() ||
           !worker.sparse.empty();
  }
  [[gnu::noinline, gnu::cold]] bool DoDeferred(Worker& worker);
  template <class Form>
  Seen SeekNear(const Key& key) const;
  static Seen SeenAt(const LeafPlace<C>& place) {
    Seen seen;
    seen.leaf = place.leaf;
    seen.snapshot = place.snapshot;
    seen.low = place.low;
    return seen;
  }
  bool IsOutdated(const Seen& seen) const {
    return seen.leaf != nullptr && !tree_.locks.Of(seen.leaf).Validate(seen.snapshot);
  }
  void TidyUp(Worker& worker);
  bool SetLowsAside(const LongPuts& puts);
  void Trim(Worker& worker, size_t leaves, uint64_t low_bytes);

  TreeState<C>& tree_;
  OpStages<C> stages_;
  const Descent<C> descent_;
  LeafWriter<C> writer_;
  LeafSplitter<C> splitter_;
  LeafMerger<C> merger_;
  SubIndices<C> sub_indices_;
  TopRebuild<C> rebuild_;
};

template <class C>
template <class Form>
auto PairWriter<C>::Seek(const Key& key) const -> Seen {
  LeafPlace<C> place;
  {
    const EpochGuardOf<Form> guard;
    descent_.template ToLeaf<Form>(Target<C>{&key}, &place);
  }
  if (place.anchor_steps + place.leaf_steps != 0) [[unlikely]]
    rebuild_.NoteSteps(key, place.anchor_steps, place.leaf_steps);
  return SeenAt(place);
}

template <class C>
template <class Form>
void PairWriter<C>::SeekEach(std::span<SoughtKey<Key, Seen>> keys) const {
  const EpochGuardOf<Form> guard;
  descent_.template NearLeaves<Form>(
      keys.size(), [&](size_t i) -> const Key& { return keys[i].key; },
      [&](size_t i, const LeafPlace<C>& place) { keys[i].seen = SeenAt(place); });
}

template <class C>
template <class Form>
auto PairWriter<C>::SeekNear(const Key& key) const -> Seen {
  LeafPlace<C> place;
  const EpochGuardOf<Form> guard;
  descent_.template NearLeaf<Form>(Target<C>{&key}, &place);
  return SeenAt(place);
}

// A leaf that was locked as of its snapshot is one not to the right of the key's: nothing was
// published in it since it was found. Its lines are read under the lock only, all being fetched by
// then; that the key is not to the right of them all is seen there, if it is not among them.
template <class C>
template <class Form>
auto PairWriter<C>::Lock(const Key& key, bool of_batch, Seen seen) -> Held {
  if (IsOutdated(seen)) seen = {};  // nobody is waited for then
  bool beyond = false;
  for (Backoff backoff;; backoff.Pause()) {
    Seen at = std::exchange(seen, {});
    if (at.leaf == nullptr) at = beyond ? Seek(key) : SeekNear<Form>(key);
    if (at.leaf == nullptr) return {};
    VersionLock& lock = tree_.locks.Of(at.leaf);
    if (!lock.TryUpgrade(at.snapshot)) continue;
    Held held{.leaf = at.leaf, .lock = &lock, .low = at.low};
    tree_.search.template FindPlace<Form>(held.leaf, NodeState(held.leaf->state.LoadRelaxed()), key,
                                          &held.slot, &held.place);
    beyond = !held.found() && !tree_.search.Covers(held.leaf, key);
    if (beyond) [[unlikely]] {
      lock.Unlock();
      continue;
    }
    const bool waits = !of_batch && tree_.key_locks.IsTaken(key.hash);
    if (!waits || tree_.medium.Canary("tlbtree.write.batches_ignored")) [[likely]]
      return held;
    lock.Unlock();
    tree_.key_locks.AwaitFree(key.hash);
  }
}

}  // namespace lodgekv::tlbtree
