// Recovery's logs: what the replay by watermark (node/log_replay.h) requires of SPTree. Its ranges
// are the leaves. What is replayed goes to their write buffers, as the writes did.
//
// A leaf whose buffer takes what is replayed is not settled for that: the log still has what the
// buffer has, so it does not matter which of its unflushed lines a power cut takes. It is settled
// when its buffer is emptied, or by who reads it.
#include <atomic>
#include <span>
#include <vector>

#include "index/node/log_replay.h"
#include "index/sptree/buffer_reclaim.h"
#include "index/sptree/recovery.h"

namespace lodgekv::sptree {

namespace {

template <class C>
class LoggedTree {
 public:
  using Key = typename C::Key;

  LoggedTree(TreeState<C>& tree, PairWriter<C>& writer, std::vector<Mnode<C>*> leaves)
      : tree_(tree), writer_(writer), search_(tree), leaves_(std::move(leaves)) {}

  size_t ranges() const { return leaves_.size(); }
  bool LiesBefore(const Key& key, size_t leaf) const {
    return C::CompareToKey(leaves_[leaf]->low, key) > 0;
  }
  uint64_t WatermarkFor(const Key& key) const { return WatermarkOf(*LeafOf(key).bnode); }
  bool HasPair(const Key& key, Pair pair) const {
    const Mnode<C>& leaf = LeafOf(key);
    const int slot = search_.FindPlace(leaf, key);
    return slot >= 0 && SlotPair(*leaf.bnode, static_cast<unsigned>(slot)).value == pair.value;
  }
  bool IsDead(const FoundEntry& entry) const;
  // Keys that the replay has added to the leaves' own; those that it has removed count as negative.
  int64_t added_keys() const { return added_keys_.load(std::memory_order_relaxed); }

  class Replayer {
   public:
    explicit Replayer(LoggedTree& tree)
        : replay_(tree),
          tree_(tree.tree_),
          writer_(tree.writer_),
          writes_(tree.tree_),
          flusher_(tree.tree_),
          worker_(tree.tree_.workers.Current()) {}
    absl::Status Apply(const FoundEntry& entry, const Key& key, uint32_t log);
    void End() {
      worker_.retired.HandTo(tree_.reclaimer);
      replay_.added_keys_.fetch_add(added_keys_, std::memory_order_relaxed);
    }

   private:
    LockedLeaf<C> LockUnsettled(const Key& key) const;
    absl::Status PutInLeaf(const FoundEntry& entry, const Key& key, uint32_t log);

    LoggedTree& replay_;
    int64_t added_keys_ = 0;
    TreeState<C>& tree_;
    PairWriter<C>& writer_;
    BufferedWrites<C> writes_;
    BufferFlusher<C> flusher_;
    Worker& worker_;
  };

 private:
  const Mnode<C>& LeafOf(const Key& key) const {
    uint64_t snapshot;
    return *tree_.top.Find(key, &snapshot);
  }

  TreeState<C>& tree_;
  PairWriter<C>& writer_;
  const LeafSearch<C> search_;
  const std::vector<Mnode<C>*> leaves_;  // from left to right
  std::atomic<int64_t> added_keys_{0};
};

// The key begins with the bytes of the entry's word: it is not to the left of the leaf that covers
// the shortest such key.
template <class C>
bool LoggedTree<C>::IsDead(const FoundEntry& entry) const {
  char text[8];
  StoreBigEndian(entry.pair.key, text);
  size_t length = sizeof(text);
  while (length > 0 && text[length - 1] == 0) --length;
  const Mnode<C>* leaf = &LeafOf(C::MakeKey({text, length}));
  for (bool first = true; leaf != nullptr; leaf = leaf->right, first = false) {
    if (!first && C::WordOf(leaf->low, 0) > entry.pair.key) return false;
    if (WatermarkOf(*leaf->bnode) >= entry.sequence) return true;
  }
  return false;
}

// Nobody else is in the leaf: the tasks have ranges of their own, and nothing is served.
template <class C>
LockedLeaf<C> LoggedTree<C>::Replayer::LockUnsettled(const Key& key) const {
  uint64_t snapshot;
  Mnode<C>* leaf = tree_.top.FindForWrite(key, &snapshot);
  while (!leaf->lock.TryUpgrade(snapshot)) leaf = tree_.top.FindForWrite(key, &snapshot);
  return replay_.search_.Locate(leaf, key);
}

template <class C>
absl::Status LoggedTree<C>::Replayer::Apply(const FoundEntry& entry, const Key& key, uint32_t log) {
  LockedLeaf<C> held = LockUnsettled(key);
  const bool put = entry.op == LogOp::kPut;
  added_keys_ += int{put} - int{held.found()};
  if (!writes_.HasRoom(held, entry.op)) tree_.Touch(key);
  const bool buffered = writes_.Restore(worker_, held, entry.pair, entry.op, entry.sequence, log);
  held.Unlock();
  return buffered ? absl::OkStatus() : PutInLeaf(entry, key, log);
}

// The leaf is full, which it was not when the entry was written: it has fewer slots now.
template <class C>
absl::Status LoggedTree<C>::Replayer::PutInLeaf(const FoundEntry& entry, const Key& key,
                                                uint32_t log) {
  LockedLeaf<C> held = writer_.Lock(key, /*of_batch=*/true);
  Outcome outcome = writer_.WriteToLeaf(worker_, held, entry.pair);
  if (outcome == Outcome::kPoolFull && tree_.rest.FinishNow()) {
    outcome = writer_.WriteToLeaf(worker_, held, entry.pair);
  }
  held.Unlock();
  if (outcome != Outcome::kOk) {
    return absl::ResourceExhaustedError(
        "the pool is full: there is no leaf for what its log holds; nothing is lost");
  }
  held = writer_.Lock(key, /*of_batch=*/true);
  flusher_.RaiseWatermark(held.leaf, entry.sequence);
  held.Unlock();
  tree_.log.Release(log);
  return absl::OkStatus();
}

}  // namespace

template <class C>
absl::Status Recovery<C>::ReplayLogs(absl::FunctionRef<absl::Status()> mark_others) {
  std::vector<Mnode<C>*> leaves;
  for (const LeafRun& run : runs_)
    leaves.insert(leaves.end(), run.leaves.begin(), run.leaves.end());
  LoggedTree<C> tree(tree_, writer_, std::move(leaves));
  LogReplay<C, LoggedTree<C>> replay(
      {pool_, tree_.slab, tree_.codec, tree_.log, tree_.horizon, settler_, context_, "sptree"},
      tree);
  absl::Status status = replay.Choose();
  if (status.ok()) status = mark_others();
  if (!status.ok()) return status;
  if (tree_.buffers()) tree_.log.TakeOwnChunks();
  report_.log_entries_replayed = replay.entries();
  report_.log_entries_dropped = replay.dropped();
  report_.repairs += tree_.log.repaired_headers();
  status = replay.Replay();
  report_.replay_threads = replay.threads();
  report_.keys += static_cast<uint64_t>(tree.added_keys());
  // The walk settles all leaves.
  if (!status.ok() || tree_.buffers() || replay.entries() == 0) return status;
  Worker& worker = tree_.workers.Current();
  BufferReclaimer<C>(tree_, worker).FlushAll();
  worker.retired.HandTo(tree_.reclaimer);
  return absl::OkStatus();
}

template class Recovery<Fixed64Codec>;
template class Recovery<BytesCodec>;

}  // namespace lodgekv::sptree
