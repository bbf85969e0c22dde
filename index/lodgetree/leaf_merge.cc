// The log-less leaf merge: the leaf split turned round. Deletes leave sparse leaves behind; the
// left one of two neighbours takes over the pairs and the range of the right one.
//
//  step                                            after a crash              recovery
//  1  the right leaf's pairs in free slots of the  both leaves as they were   nothing
//     left one, whose watermark rises to the
//     larger and whose next[1 - use_n] points
//     behind the right one; fence
//  2  commit word: the new slots count and use_n   the left leaf has all, the mark frees the
//     is turned over, in one store; fence          right one is unreachable   right one
//
// Both leaves have nothing buffered, so all numbers up to the watermark are in them: it may rise
// before the commit. It must not fall behind the right leaf's: log entries of the range that is
// taken over would count again.
//
// Where a node has few leaves left, its left neighbour takes them over with what is buffered for
// them, in DRAM. Only nodes of one parent join: the first node below an inner node stays, and so
// does its first leaf.
#include <algorithm>
#include <cstring>

#include "index/lodgetree/lodgetree.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

// --- leaves ---

// A merged leaf is not about to split again. An empty one costs nothing to take over.
template <class C>
bool LodgeTree<C>::AreSparse(unsigned left_count, unsigned right_count) const {
  return right_count == 0 || left_count + right_count <= parameters_.t_split * 2 / 3;
}

// Merges what can be in a node from which pairs have been deleted.
template <class C>
void LodgeTree<C>::MergeSparseLeaves(Worker& worker, Node* node, uint64_t watermark) {
  bool waiting = false;
  bool merged = false;
  for (unsigned right = node->index_count - 1u; right > 0; --right) {
    if (!AreSparse(node->leaf_count[right - 1], node->leaf_count[right])) continue;
    const bool done = node->GroupMask(right - 1) == 0 && node->GroupMask(right) == 0 &&
                      MergeIntoLeftLeaf(worker, node, right, watermark);
    merged |= done;
    waiting |= !done;
  }
  node->sparse = waiting;
  if (merged || (node->index_count == 1 && node->leaf_count[0] == 0)) NoteIfSparse(worker, node);
}

template <class C>
bool LodgeTree<C>::MergeIntoLeftLeaf(Worker& worker, Node* node, unsigned right,
                                     uint64_t watermark) {
  if (!CommitMerge(worker, node, right - 1, node, right, watermark)) return false;
  const pmem::Offset freed = node->values[right];
  node->lock.BeginPublish();
  PublishLeaf(node, worker.merge);
  RemoveLeaf(node, right);
  node->lock.EndPublish();
  FreeLeaf(worker, freed);
  return true;
}

// Steps 1 and 2: leaf `left` of `node` takes over leaf `right` of `other`, which may be the same
// node; both have nothing buffered. False: during replay, older entries of a leaf may still be to
// come.
template <class C>
bool LodgeTree<C>::CommitMerge(Worker& worker, const Node* node, unsigned left, const Node* other,
                               unsigned right, uint64_t watermark) {
  const media::Leaf* from = LeafAt(other, right);
  const bool lower = medium_.Canary("lodgetree.merge.low_watermark");
  const uint64_t larger = lower ? 0 : media::WatermarkOf(from);
  LeafWork& work = worker.merge;
  BeginLeaf(node, left, 0, larger, &work);
  if (work.watermark > watermark) return false;
  const LeafMirror& mirror = other->mirrors[right];
  Pair fresh[kLeafSlots];
  size_t count = 0;
  for (uint32_t slots = mirror.slots(); slots != 0; slots &= slots - 1) {
    fresh[count++] = SlotPair(from, static_cast<unsigned>(std::countr_zero(slots)));
  }
  medium_.Store(work.media->watermark, CheckedWord(work.watermark));
  work.next = from->next[mirror.use_n()].LoadRelaxed();
  medium_.Store(work.media->next[work.use_n ? 0 : 1], work.next);
  work.lines |= 1;
  const uint32_t all_slots = (uint32_t{1} << parameters_.leaf_slots) - 1;
  WriteFresh({fresh, count}, work, all_slots & ~work.old_bits);
  FlushLines(work);
  LODGEKV_CRASH_POINT(medium_, "lodgetree.merge.1");
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lodgetree.merge.2");
  work.flip = true;
  CommitLeaves({&work, 1}, Pass::kFirst);
  medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lodgetree.merge.3");
  return true;
}

template <class C>
void LodgeTree<C>::FreeLeaf(Worker& worker, pmem::Offset offset) {
  const auto* leaf = pool_.At<media::Leaf>(offset);
  const FenceWords fence{leaf->low[0].LoadRelaxed(), leaf->low[1].LoadRelaxed()};
  if (fence.kind() == FenceWords::kRecord) worker.retired.Add(slab_, fence.record());
  if (!medium_.Canary("lodgetree.merge.leaf_stays")) leaves_.Free(offset);
  worker.counters.Add(WorkerCounters::kMergedLeaves);
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

// --- nodes ---

// To be merged when no lock is held.
template <class C>
void LodgeTree<C>::NoteIfSparse(Worker& worker, const Node* node) {
  if (node == first_node_ || node->index_count > parameters_.node_slots / 4) return;
  worker.sparse_nodes.push_back(node->low());
}

// Called with no lock held.
template <class C>
void LodgeTree<C>::MergeSparseNodes(Worker& worker) {
  while (!worker.sparse_nodes.empty()) {
    const Key low = C::KeyOf(worker.sparse_nodes.back());
    worker.sparse_nodes.pop_back();
    WriteContext context(worker);
    context.fenced = true;
    (void)MergeIntoLeftNode(context, low);
    UnlockAll(context);
  }
}

// The node whose low fence is `low` gives its leaves to the node to its left, where there is room,
// or the pairs of its only leaf to that node's last leaf.
template <class C>
bool LodgeTree<C>::MergeIntoLeftNode(WriteContext& context, const Key& low) {
  uint64_t snapshot;
  Node* left = tree_.Descend(low, &snapshot, Inner::Seek::kBefore);
  if (!left->lock.TryUpgrade(snapshot)) return false;
  context.locked.push_back(left);
  if (!left->bounded || C::CompareToKey(left->high, low) != 0) return false;
  Node* node = tree_.Descend(low, &snapshot);
  if (node == left || !node->lock.TryUpgrade(snapshot)) return false;
  context.locked.push_back(node);
  const bool join = CanJoin(left, node);
  if (!join && !CanEmpty(left, node)) return false;
  typename Inner::Removal removal;
  if (!tree_.LockForRemoval(low, Inner::Heir::kLeft, &removal)) return false;
  if (!join) {
    const uint64_t watermark = pool_.PeekSequence() - 1;
    if (!CommitMerge(context.worker, left, left->index_count - 1u, node, 0, watermark)) {
      tree_.Unlock(removal);
      return false;
    }
  }
  const pmem::Offset emptied = node->values[0];
  left->lock.BeginPublish();
  node->lock.BeginPublish();
  tree_.RemoveAndUnlock(removal, low);
  left->high = node->high;
  left->bounded = node->bounded;
  if (join) {
    AddPart(*node, 0, node->index_count, left);
    left->sparse = true;
  } else {
    PublishLeaf(left, context.worker.merge);
  }
  RebaseNode(left);
  node->lock.EndPublish();
  left->lock.EndPublish();
  if (!join) FreeLeaf(context.worker, emptied);
  FreeNode(context, node);
  return true;
}

// Both fit into a node that will not split soon.
template <class C>
bool LodgeTree<C>::CanJoin(const Node* left, const Node* right) const {
  const unsigned leaves = unsigned{left->index_count} + right->index_count;
  return leaves <= parameters_.node_slots / 2 &&
         leaves + left->buf_count + right->buf_count < parameters_.node_slots;
}

template <class C>
bool LodgeTree<C>::CanEmpty(const Node* left, const Node* right) const {
  const unsigned last = left->index_count - 1u;
  return right->index_count == 1 && right->buf_count == 0 && left->GroupMask(last) == 0 &&
         AreSparse(left->leaf_count[last], right->leaf_count[0]);
}

// The last one that `context` has locked; readers may still look at it.
template <class C>
void LodgeTree<C>::FreeNode(WriteContext& context, Node* node) {
  context.locked.pop_back();
  node->lock.Unlock();
  const std::lock_guard lock(free_nodes_mutex_);
  free_nodes_.push_back(node);
  node_count_.fetch_sub(1, std::memory_order_relaxed);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
