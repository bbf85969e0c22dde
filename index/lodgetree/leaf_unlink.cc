// An emptied leaf leaves the chain; its left neighbour in the same node takes over its range.
//
//  step                                             after a crash              recovery
//  1  both leaves drained and durable, the left     an empty leaf              nothing
//     one's watermark raised to the larger
//  2  next[use_n] of the left one passes over it,   the leaf is unreachable    mark frees it
//     one store; fence
//
// The watermark comes first: without it log entries of the lost range would count again. The first
// leaf of a node stays, until the node has no other: then the node goes too, by the same two steps
// with both nodes locked, from left to right. The leftmost leaf of all stays, and the first below
// an inner node.
#include <algorithm>
#include <cstring>

#include "index/lodgetree/lodgetree.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

// After a flush: the leaves that it drained, and their right neighbours, which may have waited for
// that.
template <class C>
void LodgeTree<C>::UnlinkEmptyLeaves(Worker& worker, Node* node, std::span<const LeafWork> works,
                                     uint64_t watermark) {
  for (const LeafWork& work : works) {
    const pmem::Offset offset = pool_.OffsetOf(work.media);
    unsigned leaf = 0;
    while (leaf < node->index_count && node->values[leaf] != offset) ++leaf;
    if (CanUnlink(node, leaf + 1)) UnlinkLeaf(worker, node, leaf + 1, watermark);
    if (CanUnlink(node, leaf)) UnlinkLeaf(worker, node, leaf, watermark);
  }
  if (node->index_count == 1 && node->leaf_count[0] == 0 && node->buf_count == 0 &&
      node != first_node_) {
    worker.empty_nodes.push_back(node->low());
  }
}

// Called with no lock held.
template <class C>
void LodgeTree<C>::MergeEmptyNodes(Worker& worker) {
  while (!worker.empty_nodes.empty()) {
    const Key low = C::KeyOf(worker.empty_nodes.back());
    worker.empty_nodes.pop_back();
    WriteContext context(worker);
    context.fenced = true;
    (void)MergeIntoLeft(context, low);
    UnlockAll(context);
  }
}

// The node whose low fence is `low`, if it has one leaf and that is empty, is taken over by the
// node to its left.
template <class C>
bool LodgeTree<C>::MergeIntoLeft(WriteContext& context, const Key& low) {
  uint64_t snapshot;
  Node* left = tree_.Descend(low, &snapshot, Inner::Seek::kBefore);
  if (!left->lock.TryUpgrade(snapshot)) return false;
  context.locked.push_back(left);
  if (!left->bounded || C::CompareToKey(left->high, low) != 0) return false;
  Node* node = tree_.Descend(low, &snapshot);
  if (node == left || !node->lock.TryUpgrade(snapshot)) return false;
  context.locked.push_back(node);
  const unsigned last = left->index_count - 1u;
  if (node->index_count != 1 || node->leaf_count[0] != 0 || node->buf_count != 0) return false;
  if (left->GroupMask(last) != 0) {
    context.plan.Clear();
    (void)AddTarget(left, last, &context.plan);
    if (context.plan.splits != 0) return false;
    Flush(context, left, pool_.PeekSequence() - 1);
    if (left->GroupMask(left->index_count - 1u) != 0) return false;
  }
  auto* parent = tree_.LockParentForRemoval(low);
  if (parent == nullptr) return false;
  const pmem::Offset freed = node->values[0];
  const media::Leaf* empty = pool_.At<media::Leaf>(freed);
  PassOver(left, left->index_count - 1u, empty, node->mirrors[0].use_n());
  left->lock.BeginPublish();
  node->lock.BeginPublish();
  tree_.RemoveAndUnlock(parent, low);
  left->high = node->high;
  left->bounded = node->bounded;
  RebaseNode(left);
  node->lock.EndPublish();
  left->lock.EndPublish();
  FreeLeaf(context.worker, freed);
  context.locked.pop_back();
  node->lock.Unlock();
  const std::lock_guard lock(free_nodes_mutex_);
  free_nodes_.push_back(node);
  node_count_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

// Nothing is buffered for the leaf or for the one that takes over, so their watermarks may rise.
template <class C>
bool LodgeTree<C>::CanUnlink(const Node* node, unsigned leaf) const {
  return leaf > 0 && leaf < node->index_count && node->leaf_count[leaf] == 0 &&
         node->GroupMask(leaf) == 0 && node->GroupMask(leaf - 1) == 0;
}

// Steps 1 and 2: the leaf `left_index` of `left` takes over the range of `empty`.
template <class C>
void LodgeTree<C>::PassOver(const Node* left, unsigned left_index, const media::Leaf* empty,
                            unsigned use_n) {
  media::Leaf* leaf = LeafAt(left, left_index);
  const uint64_t raised = std::max(leaf->watermark.LoadRelaxed(), empty->watermark.LoadRelaxed());
  medium_.Store(leaf->watermark, raised);
  if (medium_.strict_order()) medium_.Persist(leaf, pmem::kLineBytes);
  LODGEKV_CRASH_POINT(medium_, "lodgetree.unlink.1");
  const uint64_t next = empty->next[use_n].LoadRelaxed();
  medium_.Store(leaf->next[left->mirrors[left_index].use_n()], next);
  medium_.FlushLine(leaf);
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lodgetree.unlink.2");
}

template <class C>
void LodgeTree<C>::FreeLeaf(Worker& worker, pmem::Offset offset) {
  const auto* leaf = pool_.At<media::Leaf>(offset);
  const FenceWords fence{leaf->low[0].LoadRelaxed(), leaf->low[1].LoadRelaxed()};
  if (fence.kind() == FenceWords::kRecord) worker.retired.push_back(fence.record());
  leaves_.Free(offset);
  worker.counters.Add(WorkerCounters::kUnlinkedLeaves);
}

template <class C>
void LodgeTree<C>::UnlinkLeaf(Worker& worker, Node* node, unsigned leaf, uint64_t watermark) {
  const media::Leaf* empty = LeafAt(node, leaf);
  const media::Leaf* left = LeafAt(node, leaf - 1);
  // During replay older entries of the left leaf may still be to come.
  if (empty->watermark.LoadRelaxed() > watermark || left->watermark.LoadRelaxed() > watermark) {
    return;
  }
  PassOver(node, leaf - 1, empty, node->mirrors[leaf].use_n());
  const pmem::Offset freed = node->values[leaf];
  node->lock.BeginPublish();
  RemoveLeaf(node, leaf);
  node->lock.EndPublish();
  FreeLeaf(worker, freed);
}

// Takes the leaf out of the Index Part; buffered pairs of leaves to its right move down one target.
template <class C>
void LodgeTree<C>::RemoveLeaf(Node* node, unsigned leaf) const {
  const size_t behind = node->index_count - leaf - 1u;
  std::memmove(node->words + leaf, node->words + leaf + 1, behind * sizeof(uint64_t));
  std::memmove(node->values + leaf, node->values + leaf + 1, behind * sizeof(uint64_t));
  std::memmove(node->leaf_count + leaf, node->leaf_count + leaf + 1, behind);
  std::memmove(node->mirrors + leaf, node->mirrors + leaf + 1, behind * sizeof(LeafMirror));
  if constexpr (C::kRecords) {
    auto* low = node->separators.low;
    std::memmove(low + leaf, low + leaf + 1, behind * sizeof(Separator));
  }
  --node->index_count;
  for (unsigned i = node->buf_start(); i < kNodeSlots; ++i) {
    if (node->leaf_count[i] > leaf) --node->leaf_count[i];
  }
  if (!node->bounded) RebaseNode(node);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
