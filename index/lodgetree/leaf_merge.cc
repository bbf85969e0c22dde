#include "index/lodgetree/leaf_merge.h"

#include "index/lodgetree/commit_closer.h"
#include "index/lodgetree/leaf_writer.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lodgetree {

template <class C>
void LeafMerger<C>::MergeSparseLeaves(Node* node, uint64_t watermark) {
  bool waiting = false;
  bool merged = false;
  for (unsigned right = node->index_count - 1u; right > 0; --right) {
    if (!AreSparse(node->leaf_count[right - 1], node->leaf_count[right])) continue;
    const bool done = node->GroupMask(right - 1) == 0 && node->GroupMask(right) == 0 &&
                      MergeIntoLeftLeaf(node, right, watermark);
    merged |= done;
    waiting |= !done;
  }
  node->sparse = waiting;
  if (merged || (node->index_count == 1 && node->leaf_count[0] == 0)) NoteIfSparse(node);
}

template <class C>
bool LeafMerger<C>::MergeIntoLeftLeaf(Node* node, unsigned right, uint64_t watermark) {
  if (!Commit(node, right - 1, node, right, watermark)) return false;
  const pmem::Offset freed = node->values[right];
  node->lock.BeginPublish();
  Publish(node);
  C::Release(parts_.texts, node->LowOf(right));
  node->RemoveLeaf(right, parts_.codec);
  node->lock.EndPublish();
  FreeLeaf(freed);
  return true;
}

template <class C>
bool LeafMerger<C>::Commit(Node* node, unsigned left, Node* other, unsigned right,
                           uint64_t watermark) {
  parts_.Touch(node, left);
  parts_.Touch(other, right);
  CommitCloser<C> closer(parts_, worker_);
  if (!parts_.medium.Canary("lodgetree.close.merged_leaves")) {
    closer.CloseNode(node);
    closer.CloseNode(other);
  }
  const media::Leaf* from = parts_.access.LeafAt(other, right);
  const bool lower = parts_.medium.Canary("lodgetree.merge.low_watermark");
  const uint64_t larger = lower ? 0 : media::WatermarkOf(from);
  LeafWriter<C> writer(parts_, worker_);
  LeafWork& work = worker_.merge;
  writer.Begin(node, left, 0, larger, &work);
  if (work.watermark > watermark) return false;
  const LeafMirror& mirror = other->mirrors[right];
  Pair fresh[kLeafSlots];
  size_t count = 0;
  for (uint32_t slots = mirror.slots(); slots != 0; slots &= slots - 1) {
    fresh[count++] = SlotPair(from, static_cast<unsigned>(std::countr_zero(slots)));
  }
  parts_.medium.Store(work.media->watermark, CheckedWord(work.watermark));
  work.next = from->next[mirror.use_n()].LoadRelaxed();
  parts_.medium.Store(work.media->next[work.use_n ? 0 : 1], work.next);
  work.lines |= 1;
  const uint32_t all_slots = parts_.parameters.AllSlots();
  writer.WriteFresh({fresh, count}, work, all_slots & ~work.old_bits);
  writer.FlushLines(work);
  LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.merge.1");
  parts_.medium.Fence();
  LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.merge.2");
  work.flip = true;
  writer.StoreCommits({&work, 1}, LeafWriter<C>::Pass::kFirst);
  parts_.medium.Fence();
  closer.AfterFence();
  LODGEKV_CRASH_POINT(parts_.medium, "lodgetree.merge.3");
  return true;
}

template <class C>
void LeafMerger<C>::FreeLeaf(pmem::Offset offset) {
  const auto* leaf = parts_.pool.template At<media::Leaf>(offset);
  const FenceWords fence{leaf->low[0].LoadRelaxed(), leaf->low[1].LoadRelaxed()};
  if (fence.kind() == FenceWords::kRecord) worker_.retired.Add(parts_.slab, fence.record());
  if (!parts_.medium.Canary("lodgetree.merge.leaf_stays")) parts_.leaves.Free(offset);
  worker_.counters.Add(WorkerCounters::kMergedLeaves);
}

template <class C>
void LeafMerger<C>::NoteIfSparse(const Node* node) {
  if (IsSparse(node)) worker_.sparse_nodes.push_back(C::TextOf(node->low()));
}

template <class C>
void LeafMerger<C>::Publish(Node* node) const {
  LeafWriter<C>(parts_, worker_).PublishMirror(node, worker_.merge);
}

template class LeafMerger<Fixed64Codec>;
template class LeafMerger<BytesCodec>;

}  // namespace lodgekv::lodgetree
