// The Hotness-Aware Multiple Split of a last-level node (LodgeTree III-C, Fig. 7-9, Formula 1). All
// of it is in DRAM: a crash undoes it, recovery builds nodes anew.
#include <algorithm>
#include <cstring>
#include <new>

#include "index/lodgetree/lodgetree.h"

namespace lodgekv::lodgetree {

template <class C>
typename LodgeTree<C>::Node* LodgeTree<C>::NewNode() {
  node_count_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(free_nodes_mutex_);
    if (!free_nodes_.empty()) {
      Node* node = free_nodes_.back();
      free_nodes_.pop_back();
      // Every field is set by who fills it; the lock keeps its version, the node its place among
      // those that hold space: who looks for some may have locked it, to find nothing.
      for (Backoff backoff; !node->lock.TryLock();) backoff.Pause();
      return node;
    }
  }
  return new (dram_.Allocate(sizeof(Node))) Node{};
}

template <class C>
void LodgeTree<C>::MakeNodes(std::span<Node*> nodes) {
  node_count_.fetch_add(nodes.size(), std::memory_order_relaxed);
  auto* space = static_cast<Node*>(dram_.Allocate(nodes.size() * sizeof(Node)));
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = new (space + i) Node{};
}

// interval_lp = ls - ps is the time between the last two splits, interval_nl = global - ls the time
// since the last. A node that filled more than t times faster than last time is in a burst: M + 1
// nodes; one that took t times longer cools down: M - 1; else M again. Formula 1 bounds it by the
// parent's room.
template <class C>
unsigned LodgeTree<C>::NodesAfterSplit(const Node* node, unsigned free_slots,
                                       Worker& worker) const {
  unsigned m = 2;
  if (parameters_.multiple_split && node->split_m != 0) {
    m = node->split_m;
    const uint64_t interval_lp = node->ls_counter - node->ps_counter;
    const uint64_t interval_nl = Tick() - node->ls_counter;
    if (interval_lp > parameters_.hotness_ratio * interval_nl) {
      ++m;
      worker.counters.Add(WorkerCounters::kAddingSplits);
    } else if (parameters_.hotness_ratio * interval_lp < interval_nl) {
      --m;
      worker.counters.Add(WorkerCounters::kReducingSplits);
    }
  }
  m = std::clamp(m, 2u, parameters_.max_split);
  if (m > free_slots) m = free_slots <= 1 ? 2 : free_slots;
  return std::min<unsigned>(m, node->index_count);
}

// Splits a locked node; the new nodes are locked too and join the context. Returns the one that
// covers `key`. The parent is published first, while readers of the old node wait.
template <class C>
typename LodgeTree<C>::Node* LodgeTree<C>::SplitNode(WriteContext& context, Node* node,
                                                     const Key& key) {
  auto* parent = tree_.LockParent(key);
  const unsigned parts = NodesAfterSplit(node, Inner::FreeSlots(parent), context.worker);
  const unsigned leaves = node->index_count;
  Node whole;
  std::memcpy(static_cast<void*>(&whole), node, sizeof(Node));
  const uint32_t now = Tick();
  absl::InlinedVector<typename Inner::Child, kMaxSplit> children;
  for (unsigned j = 1; j < parts; ++j) {
    Node* part = NewNode();
    part->lock.InitLocked();
    part->BecomePart(whole, leaves * j / parts, leaves * (j + 1) / parts, codec_);
    NoteHolding(part);
    C::Keep(part->low());
    children.push_back({part->low(), part});
    part->split_m = static_cast<uint8_t>(parts);
    part->ps_counter = whole.ls_counter;
    part->ls_counter = now;
  }
  node->lock.BeginPublish();
  tree_.InsertAndUnlock(parent, key, {children.data(), children.size()});
  node->BecomePart(whole, 0, leaves / parts, codec_);
  NoteHolding(node);
  node->split_m = static_cast<uint8_t>(parts);
  node->ps_counter = whole.ls_counter;
  node->ls_counter = now;
  node->lock.EndPublish();

  auto after = std::find(context.locked.begin(), context.locked.end(), node);
  for (const auto& child : children) after = context.locked.insert(after + 1, child.node);
  context.worker.counters.Add(WorkerCounters::kNodeSplits);
  return context.Covering(key);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
