// Writes of one pair, each durable on return, and the other operations that the write paths need
// from a tree: the Tree of write_tree.h. The protocols are those of Change, Update, Split and Drop
// in README.md.
//
// INVARIANT: a record is durable before a store links it.
//
// Thread-safe; for one leaf, only the holder of its lock may call Put and Remove.
#pragma once

#include <span>
#include <utility>

#include "index/node/search_form.h"
#include "index/node/write_tree.h"
#include "index/sstree/head_writer.h"
#include "index/sstree/leaf_dropper.h"
#include "index/sstree/leaf_search.h"
#include "index/sstree/leaf_split.h"
#include "index/sstree/leaf_writer.h"
#include "index/sstree/tree_state.h"
#include "index/sstree/write_group.h"

namespace lodgekv::sstree {

// A locked leaf, and the key's place in it.
struct LockedLeaf {
  Leaf* leaf = nullptr;
  Place place;

  bool found() const { return place.found(); }
  Pair FoundPair() const { return place.pair(); }
  void Unlock() { leaf->lock.Unlock(); }
};

template <class C>
class PairWriter {
 public:
  using Key = typename C::Key;
  using Held = LockedLeaf;
  using Seen = SeenLeaf<Leaf>;
  using Group = WriteGroup<C>;

  explicit PairWriter(TreeState<C>& tree)
      : tree_(tree),
        stages_(tree.pool, tree.slab, tree.codec, tree.values),
        search_(tree),
        head_writer_(tree),
        writer_(tree),
        splitter_(tree),
        dropper_(tree) {}

  template <class Form = SearchByPointer>
  Seen Seek(const Key& key) const {
    Seen seen;
    seen.leaf = tree_.inner.template DescendForWrite<Form>(key, &seen.snapshot);
    return seen;
  }
  template <class Form>
  void SeekEach(std::span<SoughtKey<Key, Seen>> keys) const {
    tree_.inner.template DescendEach<Form>(
        keys.size(), [&](size_t i) -> const Key& { return keys[i].key; },
        [&](size_t i, auto* leaf, uint64_t snapshot) {
          keys[i].seen = {leaf, snapshot};
        });
  }
  void FetchFound(const Key& key, const Seen& seen) const {
    search_.FetchForWrite(*seen.leaf, key);
  }
  void FetchRecords(const Key& key, const Seen& seen) const requires C::kRecords {
    search_.FetchRecords(*seen.leaf, seen.snapshot, key);
  }
  template <class Form = SearchByPointer>
  LockedLeaf Lock(const Key& key, bool of_batch, Seen seen = {});
  void AwaitWriters(const Key& key, Seen seen);
  Outcome Put(const LockedLeaf& locked, const Key& key, Pair pair);
  void Remove(const LockedLeaf& locked, const Key& key);
  bool AfterWrite() {
    Worker& worker = tree_.workers.Current();
    if (worker.retired.full() || HasEmptied(worker) || tree_.medium.unusual()) [[unlikely]]
      return DoDeferred(worker);
    return true;
  }
  bool ReclaimSpace();

  // For atomic batches.
  bool SetAside(size_t puts) {
    return tree_.space.SetAside(tree_.workers.Current().spare,
                                puts * tree_.new_subnodes_of_put());
  }
  void FreeSpare() { tree_.space.FreeSpare(tree_.workers.Current().spare); }
  void CountBatch() { tree_.workers.Current().counters.Add(WorkerCounters::kBatches); }

  OpStages<C>& stages() { return stages_; }
  pmem::Medium& medium() { return tree_.medium; }
  KeyLocks& key_locks() { return tree_.key_locks; }
  BatchIntents& intents() { return tree_.intents; }
  AppliedIndex& applied() { return tree_.applied; }
  TreeState<C>& state() { return tree_; }

 private:
  static bool HasEmptied(const Worker& worker) {
    return !worker.emptied.empty() || !worker.removed.empty();
  }
  [[gnu::noinline, gnu::cold]] bool DoDeferred(Worker& worker);
  static bool IsOutdated(const Seen& seen) {
    return seen.leaf != nullptr && !seen.leaf->lock.Validate(seen.snapshot);
  }
  Outcome Insert(Worker& worker, Leaf* leaf, const Key& key, Pair pair);
  Outcome InsertOtherwise(Worker& worker, Leaf* leaf, const Key& key, Pair pair);
  void Update(Worker& worker, const LockedLeaf& locked, const Key& key, Pair pair);
  void UpdateInPlace(Worker& worker, const LockedLeaf& locked, Pair pair);
  void RemoveOtherwise(Worker& worker, const LockedLeaf& locked, const Key& key);
  void Commit(Worker& worker, LeafChange* change);
  void FenceRecord(Pair pair);

  TreeState<C>& tree_;
  OpStages<C> stages_;
  const LeafSearch<C> search_;
  HeadWriter<C> head_writer_;
  LeafWriter<C> writer_;
  LeafSplitter<C> splitter_;
  LeafDropper<C> dropper_;
};

// The lock proves that the leaf is the key's: it can be acquired only if nothing was published in
// the leaf since its parent referred to it.
template <class C>
template <class Form>
LockedLeaf PairWriter<C>::Lock(const Key& key, bool of_batch, Seen seen) {
  if (IsOutdated(seen)) seen = {};  // nobody is waited for then
  for (Backoff backoff;; backoff.Pause()) {
    auto [leaf, snapshot] = std::exchange(seen, {});
    BlockHint hint;
    if (leaf == nullptr)
      leaf = tree_.inner.template DescendForWrite<Form>(key, &snapshot, nullptr, &hint);
    search_.FetchForWrite(*leaf, key, hint);
    if (!leaf->lock.TryUpgrade(snapshot)) continue;
    tree_.Touch(key);
    const bool waits = !of_batch && tree_.key_locks.IsTaken(key.hash);
    if (!waits || tree_.medium.Canary("sstree.write.batches_ignored")) [[likely]]
      return {leaf, search_.FindPlace(*leaf, key)};
    leaf->lock.Unlock();
    tree_.key_locks.AwaitFree(key.hash);
  }
}

}  // namespace lodgekv::sstree
