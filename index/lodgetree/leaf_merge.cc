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
// them, in DRAM; or the node takes over its right neighbour's. Only nodes of one parent join, and
// the left one of the two stays: so the first node below an inner node takes over the others, until
// the inner node is joined too (node/inner_tree_shrink.h).
//
// Deletes wait in the buffer as other writes do. But when they are all that is left of a leaf they
// are drained at once: nothing more can come to share the flush, and the leaf can go.
#include <algorithm>

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
  C::Release(texts_, node->LowOf(right));
  node->RemoveLeaf(right, codec_);
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

// All of the leaf's pairs are deleted, by deletes that wait in the buffer. One that is empty has to
// be of use: it can go. (A delete may also be of a pair that never left the buffer.)
template <class C>
bool LodgeTree<C>::IsEmptied(const Node* node, unsigned leaf) const {
  const uint32_t group = node->GroupMask(leaf);
  if (group == 0 || (group & ~node->tombstones) != 0) return false;
  unsigned left = node->leaf_count[leaf];
  if (left == 0) return node->index_count > 1;
  if (static_cast<unsigned>(std::popcount(group)) < left) return false;
  for (uint32_t deletes = group; deletes != 0; deletes &= deletes - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(deletes));
    left -= FindPairInLeaf(node, leaf, node->BufferedPair(i)) >= 0 ? 1 : 0;
  }
  return left == 0;
}

// Leaves that the group has emptied; it is all durable, and buffered or drained. Pairs only go, so
// nothing is staged before the commit words, which share their fence.
template <class C>
void LodgeTree<C>::DrainEmptied(WriteContext& context, std::span<const PendingOp> group) {
  Worker& worker = context.worker;
  auto& turns = worker.round.turns;
  bool any = false;
  for (const PendingOp& pending : group) {
    if (!pending.tombstone || !pending.apply) continue;
    Node* node = context.Covering(pending.key);
    const unsigned leaf = node->Search(pending.key).leaf;
    if (!IsEmptied(node, leaf)) continue;
    if (!any) worker.round.Clear();
    any = true;
    auto turn = std::find_if(turns.begin(), turns.end(),
                             [node](const NodeTurn& other) { return other.node == node; });
    if (turn == turns.end()) turn = turns.insert(turn, NodeTurn{.node = node});
    turn->leaves |= uint32_t{1} << leaf;
  }
  if (!any) return;
  worker.unlinked.clear();
  for (NodeTurn& turn : turns) {
    turn.watermark = pool_.PeekSequence() - 1;
    StageTurn(worker, turn, {});
  }
  CommitAndPublish(worker);
  RetireUnlinked(worker);
  for (const NodeTurn& turn : turns) FinishTurn(worker, turn);
}

// --- nodes ---

// To be merged when no lock is held.
template <class C>
void LodgeTree<C>::NoteIfSparse(Worker& worker, const Node* node) {
  if (IsSparse(node)) worker.sparse_nodes.push_back(C::TextOf(node->low()));
}

// Called with no lock held. Of those that were busy a few are kept; what is dropped is noted again
// with the next flush of its node that finds it sparse.
template <class C>
void LodgeTree<C>::MergeSparseNodes(Worker& worker) {
  constexpr size_t kMostKept = 64;
  auto& noted = worker.sparse_nodes;
  size_t kept = 0;
  for (size_t i = 0; i < noted.size(); ++i) {
    std::string low = std::move(noted[i]);
    const Attempt attempt = MergeWithNeighbour(worker, C::MakeKey(low));  // may note others
    if (attempt == Attempt::kBusy && kept < kMostKept) noted[kept++] = std::move(low);
  }
  noted.resize(kept);
}

// The node that covers `key`, if it is sparse, gives its leaves to the node to its left, or takes
// over those of the one to its right.
template <class C>
auto LodgeTree<C>::MergeWithNeighbour(Worker& worker, const Key& key) -> Attempt {
  bool busy = false;
  for (const bool into_left : {true, false}) {
    WriteContext context(worker);
    context.fenced = true;
    const Attempt attempt = MergeWith(context, key, into_left);
    UnlockAll(context);
    if (attempt == Attempt::kDone) return attempt;
    busy |= attempt == Attempt::kBusy;
  }
  // There may be nothing to merge but inner nodes, where those above were busy.
  busy |= !tree_.Shrink(key);
  return busy ? Attempt::kBusy : Attempt::kCannot;
}

// Null: it is busy.
template <class C>
typename LodgeTree<C>::Node* LodgeTree<C>::TryLock(WriteContext& context, const Key& key,
                                                   typename Inner::Seek seek) {
  uint64_t snapshot;
  Node* node = tree_.Descend(key, &snapshot, seek);
  const bool mine =
      std::find(context.locked.begin(), context.locked.end(), node) != context.locked.end();
  if (!mine && !node->lock.TryUpgrade(snapshot)) return nullptr;
  if (!mine) context.locked.push_back(node);
  return node;
}

template <class C>
auto LodgeTree<C>::MergeWith(WriteContext& context, const Key& key, bool into_left) -> Attempt {
  Node* node = TryLock(context, key, Inner::Seek::kCovering);
  if (node == nullptr) return Attempt::kBusy;
  if (!IsSparse(node) || (!into_left && !node->bounded)) return Attempt::kCannot;
  Node* other = into_left ? TryLock(context, C::KeyOf(node->low()), Inner::Seek::kBefore)
                          : TryLock(context, C::KeyOf(node->high), Inner::Seek::kCovering);
  if (other == nullptr) return Attempt::kBusy;
  if (other == node) return Attempt::kCannot;  // there is none to its left
  return into_left ? MergeNodes(context, other, node) : MergeNodes(context, node, other);
}

// The left one takes over the leaves of the right one, where there is room, or into its last leaf
// the pairs of the right one's only leaf.
template <class C>
auto LodgeTree<C>::MergeNodes(WriteContext& context, Node* left, Node* right) -> Attempt {
  // Separators of keys that were damaged may be out of order, and lead to a node far away.
  if (!left->bounded || C::Compare(left->high, right->low()) != 0) return Attempt::kCannot;
  const bool join = CanJoin(left, right);
  if (!join && !CanEmpty(left, right)) return Attempt::kCannot;
  const std::string text = C::TextOf(right->low());
  const Key low = C::MakeKey(text);
  typename Inner::Node* parent;
  const Attempt attempt = tree_.LockForRemoval(low, right, Inner::Heir::kLeft, &parent);
  if (attempt != Attempt::kDone) return attempt;
  const uint64_t watermark = pool_.PeekSequence() - 1;
  if (!join && !CommitMerge(context.worker, left, left->index_count - 1u, right, 0, watermark)) {
    tree_.Unlock(parent);
    return Attempt::kCannot;
  }
  const pmem::Offset emptied = right->values[0];
  left->lock.BeginPublish();
  right->lock.BeginPublish();
  tree_.RemoveAndUnlock(parent, low);
  C::Release(texts_, left->high);
  left->high = right->high;
  left->bounded = right->bounded;
  if (join) {
    left->AddPart(*right, 0, right->index_count);
    NoteHolding(left);
    right->buf_count = 0;
  } else {
    PublishLeaf(left, context.worker.merge);
    C::Release(texts_, right->low());
  }
  left->Rebase(codec_);
  right->lock.EndPublish();
  left->lock.EndPublish();
  if (!join) FreeLeaf(context.worker, emptied);
  FreeNode(context, right);
  // Else an empty leaf of the right one would stay until something is flushed here.
  MergeSparseLeaves(context.worker, left, watermark);
  if (!tree_.Shrink(low)) context.worker.sparse_nodes.push_back(text);
  return Attempt::kDone;
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

// One that `context` has locked; readers may still look at it.
template <class C>
void LodgeTree<C>::FreeNode(WriteContext& context, Node* node) {
  context.locked.erase(std::find(context.locked.begin(), context.locked.end(), node));
  node->lock.Unlock();
  const std::lock_guard lock(free_nodes_mutex_);
  free_nodes_.push_back(node);
  node_count_.fetch_sub(1, std::memory_order_relaxed);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
