// Recovery's logs: what the replay by watermark (node/log_replay.h) requires of LodgeTree. Its
// ranges are the nodes that recovery has built.
#include <algorithm>
#include <mutex>
#include <span>

#include "index/lodgetree/commit_closer.h"
#include "index/lodgetree/recovery.h"
#include "index/node/log_replay.h"

namespace lodgekv::lodgetree {

namespace {

template <class C>
class LoggedTree {
 public:
  using Key = typename C::Key;
  using Separator = typename C::Separator;
  using Node = LastLevelNode<C>;

  LoggedTree(TreeParts<C>& parts, std::span<Node* const> nodes) : parts_(parts), nodes_(nodes) {}

  size_t ranges() const { return nodes_.size(); }
  bool LiesBefore(const Key& key, size_t node) const {
    return C::CompareToKey(nodes_[node]->low(), key) > 0;
  }

  uint64_t WatermarkFor(const Key& key) const {
    uint64_t snapshot;
    const Node* node = parts_.tree.Descend(key, &snapshot);
    return WatermarkOf(node, node->Search(key).leaf);
  }
  bool HasPair(const Key& key, Pair pair) const;
  bool IsDead(const FoundEntry& entry) const;

  class Replayer {
   public:
    explicit Replayer(LoggedTree& tree)
        : tree_(tree), parts_(tree.parts_), worker_(tree.parts_.CurrentWorker()) {}
    absl::Status Apply(const FoundEntry& entry, const Key& key, uint32_t log);
    void End() {
      CommitCloser<C>(parts_, worker_).CloseNow();
      worker_.ReleaseDrainedLogs(parts_.log);
      worker_.retired.HandTo(parts_.reclaimer);
    }

   private:
    bool TryToApply(PendingOp<C>& pending, bool splits);

    LoggedTree& tree_;
    TreeParts<C>& parts_;
    Worker<C>& worker_;
  };

 private:
  uint64_t WatermarkOf(const Node* node, unsigned leaf) const {
    return media::WatermarkOf(parts_.access.LeafAt(node, leaf));
  }

  TreeParts<C>& parts_;
  const std::span<Node* const> nodes_;
  std::mutex split_mutex_;
};

template <class C>
bool LoggedTree<C>::HasPair(const Key& key, Pair pair) const {
  uint64_t snapshot;
  const Node* node = parts_.tree.Descend(key, &snapshot);
  const unsigned leaf = node->Search(key).leaf;
  const int slot = parts_.access.FindPairInLeaf(node, leaf, pair);
  if (slot < 0) return false;
  return SlotPair(parts_.access.LeafAt(node, leaf), static_cast<unsigned>(slot)).value ==
         pair.value;
}

template <class C>
bool LoggedTree<C>::IsDead(const FoundEntry& entry) const {
  char text[8];
  StoreBigEndian(entry.pair.key, text);
  size_t length = 8;
  while (length > 0 && text[length - 1] == 0) --length;
  // The key begins with this text: it is not to the left of the leaf that covers the shortest such
  // key.
  const Key least = C::MakeKey({text, length});
  uint64_t snapshot;
  const Node* first = parts_.tree.Descend(least, &snapshot);
  auto node =
      std::lower_bound(nodes_.begin(), nodes_.end(), first->low(),
                       [](const Node* a, Separator low) { return C::Compare(a->low(), low) < 0; });
  for (unsigned leaf = first->Search(least).leaf; node != nodes_.end(); ++node, leaf = 0) {
    for (; leaf < (*node)->index_count; ++leaf) {
      const Separator low = (*node)->LowOf(leaf);
      if (C::CompareToKey(low, least) > 0 && C::WordOf(low, 0) > entry.pair.key) return false;
      if (WatermarkOf(*node, leaf) >= entry.sequence) return true;
    }
  }
  return false;
}

// False: no leaf may be split for it, or none could be allocated, and it is not applied.
template <class C>
bool LoggedTree<C>::Replayer::TryToApply(PendingOp<C>& pending, bool splits) {
  NodeWriter<C> nodes(parts_, worker_);
  nodes.fenced = true;
  nodes.replaying = true;
  nodes.replay_splits = splits;
  nodes.Lock(pending.key);
  nodes.Apply(pending);
  nodes.held.UnlockAll();
  worker_.spares.FreeAll(parts_.spare_source);
  return !nodes.stuck;
}

// Leaves split one at a time, and each takes the smallest space for its fence that will do. In a
// full pool what is free may be just what the operations in flight had set aside, one each, some
// for longer keys than others: so each finds some, whichever comes first.
template <class C>
absl::Status LoggedTree<C>::Replayer::Apply(const FoundEntry& entry, const Key& key, uint32_t log) {
  WriteResult result;
  PendingOp<C> pending;
  pending.result = &result;
  pending.key = key;
  pending.staged.pair = entry.pair;
  pending.tombstone = entry.op == LogOp::kDelete;
  pending.sequence = entry.sequence;
  pending.log = log;
  if (TryToApply(pending, /*splits=*/false)) return absl::OkStatus();
  const std::lock_guard lock(tree_.split_mutex_);
  if (TryToApply(pending, /*splits=*/true)) return absl::OkStatus();
  if (parts_.rest.FinishNow() && TryToApply(pending, /*splits=*/true)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "the pool is full: there is no leaf for what its log holds; nothing is lost");
}

}  // namespace

template <class C>
absl::Status LodgeTree<C>::Recovery::ReplayLogs() {
  LoggedTree<C> tree(parts_, nodes_);
  LogReplay<C, LoggedTree<C>> replay({pool_, parts_.slab, parts_.codec, parts_.log, parts_.horizon,
                                      settler_, context_, "lodgetree"},
                                     tree);
  absl::Status status = replay.Choose();
  if (!status.ok()) return status;
  // Little is gained by handing over a small tree, and too little space is left in a full pool.
  if (report_.clean || pool_.tight() || parts_.settling.progress().total == 1) {
    (void)parts_.rest.FinishNow();
  }
  parts_.log.TakeOwnChunks();
  parts_.applied.Restore(replay.applied_index(), replay.applied_log());
  report_.log_entries_replayed = replay.entries();
  report_.log_entries_dropped = replay.dropped();
  report_.repairs += parts_.log.repaired_headers();
  status = replay.Replay();
  report_.replay_threads = replay.threads();
  return status;
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
