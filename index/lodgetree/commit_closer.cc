#include "index/lodgetree/commit_closer.h"

namespace lodgekv::lodgetree {

template <class C>
[[gnu::noinline]] void CommitCloser<C>::Close() {
  OpenCommits& open = worker_.open_commits;
  if (!open.AreOfCaller()) {
    for (const media::Leaf* leaf : open.leaves) parts_.medium.FlushLine(leaf);
    parts_.medium.Fence();
  }
  MoveAll(open.logs, worker_.drained_logs);
  RetireUnlinked();
  open.Close();
}

template <class C>
void CommitCloser<C>::CloseNow() {
  if (!worker_.open_commits.any()) return;
  parts_.medium.Fence();
  Close();
}

// Another thread's commits are flushed once more, all that the node may have: a fence covers the
// flushes of its own thread only. They remain the other thread's to close.
template <class C>
[[gnu::noinline]] void CommitCloser<C>::CloseOpenNode(Node* node) {
  const bool own = node->commits.worker == pmem::CurrentWorkerSlot();
  pmem::Medium& medium = parts_.medium;
  if (own && medium.Canary("lodgetree.close.own_node")) return;
  if (!own && medium.Canary("lodgetree.close.others_node")) return;
  if (!own && !medium.Canary("lodgetree.close.others_not_flushed")) {
    for (unsigned leaf = 0; leaf < node->index_count; ++leaf) {
      medium.FlushLine(parts_.access.LeafAt(node, leaf));
    }
  }
  medium.Fence();
  AfterFence();
  node->commits = worker_.open_commits.ClosedMark();
  worker_.counters.Add(WorkerCounters::kNodesClosed);
}

template class CommitCloser<Fixed64Codec>;
template class CommitCloser<BytesCodec>;

}  // namespace lodgekv::lodgetree
