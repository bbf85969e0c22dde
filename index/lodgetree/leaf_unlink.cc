// An emptied leaf leaves the chain; its left neighbour in the same node takes over its range.
//
//  step                                             after a crash              recovery
//  1  both leaves drained and durable, the left     an empty leaf              nothing
//     one's watermark raised to the larger
//  2  next[use_n] of the left one passes over it,   the leaf is unreachable    mark frees it
//     one store; fence
//
// The watermark comes first: without it log entries of the lost range would count again. The first leaf
// of a node stays, and so does the leftmost of all.
#include <algorithm>
#include <cstring>

#include "index/lodgetree/lodgetree.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

// After a flush: the leaves that it drained, and their right neighbours, which may have waited for that.
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
}

// Nothing is buffered for the leaf or for the one that takes over, so their watermarks may rise.
template <class C>
bool LodgeTree<C>::CanUnlink(const Node* node, unsigned leaf) const {
  return leaf > 0 && leaf < node->index_count && node->leaf_count[leaf] == 0 &&
         node->GroupMask(leaf) == 0 && node->GroupMask(leaf - 1) == 0;
}

template <class C>
void LodgeTree<C>::UnlinkLeaf(Worker& worker, Node* node, unsigned leaf, uint64_t watermark) {
  media::Leaf* left = LeafAt(node, leaf - 1);
  const media::Leaf* empty = LeafAt(node, leaf);
  const uint64_t raised =
      std::max(left->watermark.LoadRelaxed(), empty->watermark.LoadRelaxed());
  // During replay older entries of the left leaf may still be to come.
  if (raised > watermark) return;
  medium_.Store(left->watermark, raised);
  if (medium_.strict_order()) medium_.Persist(left, pmem::kLineBytes);
  LODGEKV_CRASH_POINT(medium_, "lodgetree.unlink.1");
  const uint64_t next = empty->next[node->mirrors[leaf].use_n()].LoadRelaxed();
  medium_.Store(left->next[node->mirrors[leaf - 1].use_n()], next);
  medium_.FlushLine(left);
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lodgetree.unlink.2");

  const FenceWords fence{empty->low[0].LoadRelaxed(), empty->low[1].LoadRelaxed()};
  const pmem::Offset freed = node->values[leaf];
  node->lock.BeginPublish();
  RemoveLeaf(node, leaf);
  node->lock.EndPublish();
  if (fence.kind() == FenceWords::kRecord) worker.retired.push_back(fence.record());
  leaves_.Free(freed);
  worker.counters.Add(WorkerCounters::kUnlinkedLeaves);
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
