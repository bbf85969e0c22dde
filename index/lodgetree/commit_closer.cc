#include "index/lodgetree/commit_closer.h"

#include <algorithm>

#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

namespace {

// Holds the lock of a worker's owed watermarks. Its holder may be in a fence.
class OwedGuard {
 public:
  explicit OwedGuard(OpenCommits& open) : open_(open) {
    for (Backoff backoff; !open_.lock.TryLock();) backoff.Pause();
  }
  OwedGuard(const OwedGuard&) = delete;
  OwedGuard& operator=(const OwedGuard&) = delete;
  ~OwedGuard() { open_.lock.Unlock(); }

 private:
  OpenCommits& open_;
};

}  // namespace

// Returns whether that was necessary. A leaf that is gone was closed by who merged it away; its
// space may be returned to libpmemobj by now, and no journal may hold lines of that.
template <class C>
bool CommitCloser<C>::FlushIfOfOther(const Superseded& commits) {
  if (commits.turn == pmem::CurrentWorkerTurn()) return false;
  bool any = false;
  for (const media::Leaf* leaf : commits.leaves) {
    any |= parts_.leaves.FlushHead(parts_.pool.OffsetOf(leaf));
  }
  return any;
}

template <class C>
void CommitCloser<C>::StoreWatermark(const OwedWatermark& owed) {
  parts_.medium.Store(owed.leaf->watermark, CheckedWord(owed.watermark));
  parts_.medium.FlushLine(owed.leaf);
}

template <class C>
void CommitCloser<C>::OweWatermarks(std::span<const LeafWork> works) {
  OpenCommits& open = worker_.open_commits;
  const bool at_once = parts_.medium.Canary("lodgetree.close.watermark_at_once");
  const OwedGuard guard(open);
  for (const LeafWork& work : works) {
    const OwedWatermark owed{work.media, work.watermark};
    if (at_once) StoreWatermark(owed);
    open.owed.push_back(owed);
  }
}

template <class C>
void CommitCloser<C>::RetireUnlinked(std::vector<uint64_t>& unlinked) {
  for (const uint64_t value_word : unlinked) worker_.RetireRecord(parts_.slab, value_word);
  unlinked.clear();
}

template <class C>
void CommitCloser<C>::GiveUp(Superseded& commits) {
  commits.leaves.clear();
  MoveAll(commits.logs, worker_.drained_logs);
  RetireUnlinked(commits.unlinked);
}

template <class C>
[[gnu::noinline]] void CommitCloser<C>::Close() {
  OpenCommits& open = worker_.open_commits;
  const bool stored_again = FlushIfOfOther(open.stored);
  if (FlushIfOfOther(open.marked) || stored_again) parts_.medium.Fence();
  GiveUp(open.marked);
  if (parts_.medium.strict_order()) {
    const OwedGuard guard(open);
    LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.close.1");
    for (const OwedWatermark& owed : open.owed) StoreWatermark(owed);
    open.owed.clear();
    if (!parts_.medium.Canary("lodgetree.close.before_watermarks")) {
      std::swap(open.marked, open.stored);
      open.marked.turn = pmem::CurrentWorkerTurn();
    }
    LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.close.2");
  }
  GiveUp(open.stored);
  open.Close();
}

template <class C>
void CommitCloser<C>::CloseNow() {
  while (worker_.open_commits.any()) {
    parts_.medium.Fence();
    Close();
  }
}

// A fence covers the flushes of its own thread only, so the commits of another one are flushed once
// more, all that the node may have. What it owes here is paid before it may give anything up.
template <class C>
void CommitCloser<C>::CloseOthers(Node* node) {
  pmem::Medium& medium = parts_.medium;
  if (!medium.Canary("lodgetree.close.others_not_flushed")) {
    for (unsigned leaf = 0; leaf < node->index_count; ++leaf) {
      medium.FlushLine(parts_.access.LeafAt(node, leaf));
    }
  }
  medium.Fence();
  if (!medium.strict_order()) return;
  OpenCommits& open = parts_.workers.Of(node->commits.worker)->open_commits;
  const OwedGuard guard(open);
  const auto of_node = [&](const OwedWatermark& owed) {
    for (unsigned leaf = 0; leaf < node->index_count; ++leaf) {
      if (parts_.access.LeafAt(node, leaf) == owed.leaf) return true;
    }
    return false;
  };
  const auto first = std::partition(open.owed.begin(), open.owed.end(),
                                    [&](const OwedWatermark& owed) { return !of_node(owed); });
  if (first == open.owed.end()) return;
  for (auto owed = first; owed != open.owed.end(); ++owed) StoreWatermark(*owed);
  medium.Fence();
  open.owed.erase(first, open.owed.end());
}

// Another thread's commits remain its own to close.
template <class C>
[[gnu::noinline]] void CommitCloser<C>::CloseOpenNode(Node* node) {
  const bool own = node->commits.worker == pmem::CurrentWorkerSlot();
  pmem::Medium& medium = parts_.medium;
  if (own && medium.Canary("lodgetree.close.own_node")) return;
  if (!own && medium.Canary("lodgetree.close.others_node")) return;
  if (own) {
    medium.Fence();
  } else {
    CloseOthers(node);
  }
  AfterFence();
  node->commits = worker_.open_commits.ClosedMark();
  worker_.counters.Add(WorkerCounters::kNodesClosed);
}

template class CommitCloser<Fixed64Codec>;
template class CommitCloser<BytesCodec>;

}  // namespace lodgekv::lodgetree
