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

#include "index/lbtree/leaf_search.h"
#include "index/lbtree/leaf_splitter.h"
#include "index/lbtree/leaf_writer.h"
#include "index/lbtree/pair_remover.h"
#include "index/lbtree/tree_state.h"
#include "index/lbtree/write_group.h"
#include "index/node/search_form.h"
#include "index/node/write_tree.h"

namespace lodgekv::lbtree {

template <class C>
class PairWriter {
 public:
  using Key = typename C::Key;
  using Held = LockedLeaf;
  using Seen = SeenLeaf<media::Block>;
  using Group = WriteGroup<C>;

  explicit PairWriter(TreeState<C>& tree)
      : tree_(tree),
        stages_(tree.pool, tree.slab, tree.codec, tree.values),
        search_(tree),
        writer_(tree),
        splitter_(tree),
        remover_(tree) {}

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
  void FetchRecords(const Key& key, const Seen& seen) const requires C::kRecords {
    search_.FetchRecords(seen.leaf, key);
  }
  template <class Form = SearchByPointer>
  LockedLeaf Lock(const Key& key, bool of_batch, Seen seen = {});
  void AwaitWriters(const Key& key, Seen seen);
  // Afterwards the leaf's lock may cover two leaves.
  Outcome Put(const LockedLeaf& locked, const Key& key, Pair pair);
  void Remove(const LockedLeaf& locked, const Key& key);
  bool AfterWrite() {
    Worker& worker = tree_.workers.Current();
    if (worker.retired.full() || !worker.emptied.empty() || tree_.medium.unusual()) [[unlikely]]
      return DoDeferred(worker);
    return true;
  }
  bool ReclaimSpace();

  // For atomic batches.
  bool SetAside(size_t puts) {
    return tree_.space.SetAside(tree_.workers.Current().spare_leaves, puts);
  }
  void FreeSpare() { tree_.space.FreeSpare(tree_.workers.Current().spare_leaves); }
  void CountBatch() { tree_.workers.Current().counters.Add(WorkerCounters::kBatches); }

  OpStages<C>& stages() { return stages_; }
  pmem::Medium& medium() { return tree_.medium; }
  KeyLocks& key_locks() { return tree_.key_locks; }
  BatchIntents& intents() { return tree_.intents; }
  AppliedIndex& applied() { return tree_.applied; }
  TreeState<C>& state() { return tree_; }

 private:
  [[gnu::noinline, gnu::cold]] bool DoDeferred(Worker& worker);
  bool IsOutdated(const Seen& seen) const {
    return seen.leaf != nullptr && !tree_.locks.Of(seen.leaf).Validate(seen.snapshot);
  }
  void Update(Worker& worker, const LockedLeaf& locked, Pair pair);
  void FenceRecord(Pair pair);

  TreeState<C>& tree_;
  OpStages<C> stages_;
  const LeafSearch<C> search_;
  LeafWriter<C> writer_;
  LeafSplitter<C> splitter_;
  PairRemover<C> remover_;
};

// The lock proves that the leaf is the key's: it can be acquired only if nothing was published in
// the leaf since its parent referred to it.
template <class C>
template <class Form>
LockedLeaf PairWriter<C>::Lock(const Key& key, bool of_batch, Seen seen) {
  if (IsOutdated(seen)) seen = {};  // nobody is waited for then
  for (Backoff backoff;; backoff.Pause()) {
    auto [leaf, snapshot] = std::exchange(seen, {});
    VersionLock* lock;
    if (leaf == nullptr) {
      leaf = tree_.inner.template DescendForWrite<Form>(key, &snapshot, &lock);
    } else {
      lock = &tree_.locks.Of(leaf);
    }
    if (!lock->TryUpgrade(snapshot)) continue;
    tree_.Touch(key);
    const bool waits = !of_batch && tree_.key_locks.IsTaken(key.hash);
    if (!waits || tree_.medium.Canary("lbtree.write.batches_ignored")) [[likely]]
      return {leaf, lock, search_.FindPlace(leaf, key)};
    lock->Unlock();
    tree_.key_locks.AwaitFree(key.hash);
  }
}

}  // namespace lodgekv::lbtree
