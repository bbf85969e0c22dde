// Writes of one pair, each durable on return, and the other operations that the write paths need
// from a tree: the Tree of write_tree.h. The protocols are those of Change, Update, Split and Merge
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
#include "index/sptree/buffer_reclaim.h"
#include "index/sptree/buffered_writes.h"
#include "index/sptree/leaf_merge.h"
#include "index/sptree/leaf_search.h"
#include "index/sptree/leaf_split.h"
#include "index/sptree/leaf_writer.h"
#include "index/sptree/locked_leaf.h"
#include "index/sptree/low_fences.h"
#include "index/sptree/tree_state.h"
#include "index/sptree/write_group.h"

namespace lodgekv::sptree {

template <class C>
class PairWriter {
 public:
  using Key = typename C::Key;
  using Held = LockedLeaf<C>;
  using Seen = SeenLeaf<Mnode<C>>;
  using Group = WriteGroup<C>;

  explicit PairWriter(TreeState<C>& tree)
      : tree_(tree),
        stages_(tree.pool, tree.slab, tree.codec, tree.values),
        search_(tree),
        writer_(tree),
        splitter_(tree),
        merger_(tree),
        fences_(tree),
        buffered_(tree) {}

  template <class Form = SearchByPointer>
  Seen Seek(const Key& key) const {
    Seen seen;
    seen.leaf = tree_.top.template FindForWrite<Form>(key, &seen.snapshot);
    return seen;
  }
  template <class Form>
  void SeekEach(std::span<SoughtKey<Key, Seen>> keys) const {
    tree_.top.template FindEach<Form>(
        keys.size(), [&](size_t i) -> const Key& { return keys[i].key; },
        [&](size_t i, auto* leaf, uint64_t snapshot) {
          keys[i].seen = {leaf, snapshot};
        });
    // What a group writes goes to the leaves.
    if (tree_.buffers()) BufferReclaimer<C>(tree_, tree_.workers.Current()).FlushSought(keys);
  }
  void FetchFound(const Key& key, const Seen& seen) const {
    if (seen.leaf != nullptr) search_.FetchForWrite(*seen.leaf, key);
  }
  void FetchRecords(const Key& key, const Seen& seen) const requires C::kRecords {
    if (seen.leaf != nullptr) search_.FetchRecords(*seen.leaf, key);
  }
  template <class Form = SearchByPointer>
  Held Lock(const Key& key, bool of_batch, Seen seen = {});
  void AwaitWriters(const Key& key, Seen seen);
  Outcome Put(const Held& held, const Key& key, Pair pair);
  void Remove(const Held& held, const Key& key);
  bool AfterWrite() {
    Worker& worker = tree_.workers.Current();
    if (worker.retired.full() || !worker.sparse.empty() || tree_.buffers() ||
        tree_.backup.IsDue() || tree_.medium.unusual()) [[unlikely]]
      return DoDeferred(worker);
    return true;
  }
  bool ReclaimSpace();
  // Past the buffer, which is empty.
  Outcome WriteToLeaf(Worker& worker, const Held& held, Pair pair);

  // For atomic batches.
  bool SetAside(size_t puts) { return tree_.space.SetAside(tree_.workers.Current().spare, puts); }
  bool SetAside(size_t puts, const LongPuts& long_puts) {
    if (long_puts.count == 0) return SetAside(puts);
    return SetAside(puts) && fences_.SetAside(tree_.workers.Current(), puts, long_puts.longest);
  }
  void FreeSpare() {
    Worker& worker = tree_.workers.Current();
    tree_.space.FreeSpare(worker.spare);
    fences_.FreeSpare(worker);
  }
  void CountBatch() { tree_.workers.Current().counters.Add(WorkerCounters::kBatches); }

  OpStages<C>& stages() { return stages_; }
  pmem::Medium& medium() { return tree_.medium; }
  KeyLocks& key_locks() { return tree_.key_locks; }
  BatchIntents& intents() { return tree_.intents; }
  AppliedIndex& applied() { return tree_.applied; }
  TreeState<C>& state() { return tree_; }

 private:
  [[gnu::noinline]] bool DoDeferred(Worker& worker);
  static bool IsOutdated(const Seen& seen) {
    return seen.leaf != nullptr && !seen.leaf->lock.Validate(seen.snapshot);
  }
  // False: it is to be written to the leaf, whose buffer is empty; `held` is set for that.
  bool WriteBuffered(Worker& worker, Held* held, const Key& key, Pair pair, LogOp op);
  void RemoveFromLeaf(Worker& worker, const Held& held, const Key& key);
  Outcome Insert(Worker& worker, Mnode<C>* leaf, Pair pair);
  void Update(Worker& worker, const Held& held, Pair pair);
  void Commit(LeafChange<C>* change);

  TreeState<C>& tree_;
  OpStages<C> stages_;
  const LeafSearch<C> search_;
  LeafWriter<C> writer_;
  LeafSplitter<C> splitter_;
  LeafMerger<C> merger_;
  LowFences<C> fences_;
  BufferedWrites<C> buffered_;
};

// The lock proves that the leaf is the key's: it can be acquired only if nothing was published in
// the leaf since the top layer led to it.
template <class C>
template <class Form>
auto PairWriter<C>::Lock(const Key& key, bool of_batch, Seen seen) -> Held {
  if (IsOutdated(seen)) seen = {};  // nobody is waited for then
  for (Backoff backoff;; backoff.Pause()) {
    auto [leaf, snapshot] = std::exchange(seen, {});
    if (leaf == nullptr) leaf = tree_.top.template FindForWrite<Form>(key, &snapshot);
    if (leaf == nullptr) [[unlikely]]
      return {};
    search_.FetchForWrite(*leaf, key);
    if (!leaf->lock.TryUpgrade(snapshot)) continue;
    tree_.Touch(key);
    const bool waits = !of_batch && tree_.key_locks.IsTaken(key.hash);
    if (!waits || tree_.medium.Canary("sptree.write.batches_ignored")) [[likely]]
      return search_.Locate(leaf, key);
    leaf->lock.Unlock();
    tree_.key_locks.AwaitFree(key.hash);
  }
}

}  // namespace lodgekv::sptree
