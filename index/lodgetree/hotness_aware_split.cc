#include "index/lodgetree/hotness_aware_split.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "index/lodgetree/commit_closer.h"

namespace lodgekv::lodgetree {

// interval_lp = ls - ps is the time between the last two splits, interval_nl = global - ls the time
// since the last. A node that filled more than t times faster than last time is in a burst: M + 1
// nodes; one that took t times longer cools down: M - 1; otherwise M again. Formula 1 limits it to
// the parent's room.
template <class C>
unsigned NodeSplitter<C>::NodesAfterSplit(const Node* node, unsigned free_slots) {
  unsigned m = 2;
  if (parts_.parameters.multiple_split && node->split_m != 0) {
    m = node->split_m;
    const uint64_t interval_lp = node->ls_counter - node->ps_counter;
    const uint64_t interval_nl = parts_.Tick() - node->ls_counter;
    if (interval_lp > parts_.parameters.hotness_ratio * interval_nl) {
      ++m;
      worker_.counters.Add(WorkerCounters::kAddingSplits);
    } else if (parts_.parameters.hotness_ratio * interval_lp < interval_nl) {
      --m;
      worker_.counters.Add(WorkerCounters::kReducingSplits);
    }
  }
  m = std::clamp(m, 2u, parts_.parameters.max_split);
  if (m > free_slots) m = free_slots <= 1 ? 2 : free_slots;
  return std::min<unsigned>(m, node->index_count);
}

template <class C>
typename NodeSplitter<C>::Node* NodeSplitter<C>::Split(HeldNodes<C>& held, Node* node,
                                                       const Key& key) {
  CommitCloser<C>(parts_, worker_).CloseNode(node);
  auto* parent = parts_.tree.LockParent(key);
  const unsigned parts = NodesAfterSplit(node, Inner::FreeSlots(parent));
  const unsigned leaves = node->index_count;
  Node whole;
  std::memcpy(static_cast<void*>(&whole), node, sizeof(Node));
  const uint32_t now = parts_.Tick();
  absl::InlinedVector<typename Inner::Child, kMaxSplit> children;
  for (unsigned j = 1; j < parts; ++j) {
    Node* part = parts_.NewNode();
    part->lock.InitLocked();
    part->BecomePart(whole, leaves * j / parts, leaves * (j + 1) / parts, parts_.codec);
    parts_.holders.Note(part);
    C::Keep(part->low());
    children.push_back({part->low(), part});
    part->split_m = static_cast<uint8_t>(parts);
    part->ps_counter = whole.ls_counter;
    part->ls_counter = now;
  }
  node->lock.BeginPublish();
  parts_.tree.InsertAndUnlock(parent, key, {children.data(), children.size()});
  node->BecomePart(whole, 0, leaves / parts, parts_.codec);
  parts_.holders.Note(node);
  node->split_m = static_cast<uint8_t>(parts);
  node->ps_counter = whole.ls_counter;
  node->ls_counter = now;
  node->lock.EndPublish();

  held.AddBehind(node, {children.data(), children.size()});
  worker_.counters.Add(WorkerCounters::kNodeSplits);
  return held.Covering(key);
}

template class NodeSplitter<Fixed64Codec>;
template class NodeSplitter<BytesCodec>;

}  // namespace lodgekv::lodgetree
