// Merges of leaves; their crash table: README.md, Merge.
#include "index/sptree/leaf_merge.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "index/pmem/crash_point.h"

namespace lodgekv::sptree {

template <class C>
bool LeafMerger<C>::AreSparse(uint64_t left, uint64_t right) const {
  const auto pairs = static_cast<unsigned>(std::popcount(left) + std::popcount(right));
  if (left == 0 || right == 0) return pairs <= tree_.parameters.leaf_slots;
  return 2 * pairs <= tree_.parameters.leaf_slots;
}

// The left neighbour is looked at only now and then: to find it takes a descent.
template <class C>
void LeafMerger<C>::NoteIfSparse(Worker& worker, const Mnode<C>& leaf, const Key& key) const {
  if (!tree_.parameters.merge) return;
  const auto pairs = static_cast<unsigned>(std::popcount(leaf.bitmap));
  const bool look_left = pairs == 0 || pairs == tree_.parameters.leaf_slots / 4;
  bool with_right = false;
  if (leaf.bounded()) {
    const OptimisticSection section;  // not locked: the merge looks again
    with_right = AreSparse(leaf.bitmap, leaf.right->bitmap);
  }
  if (look_left || with_right) Note(worker, key);
}

// Only a few: beyond that, leaves stay sparse until something is deleted there again.
template <class C>
void LeafMerger<C>::Note(Worker& worker, const Key& key) const {
  constexpr size_t kMost = 64;
  if (worker.sparse.size() < kMost) worker.sparse.push_back(C::TextOf(key));
}

template <class C>
void LeafMerger<C>::MergeSparse(Worker& worker) {
  for (const std::string& text : std::exchange(worker.sparse, {})) {
    const Key key = C::MakeKey(text);
    if (MergeAt(worker, key) == Attempt::kBusy) Note(worker, key);
  }
}

template <class C>
auto LeafMerger<C>::MergeAt(Worker& worker, const Key& key) -> Attempt {
  uint64_t snapshot;
  Mnode<C>* leaf = tree_.top.FindForWrite(key, &snapshot);
  if (leaf == nullptr) return Attempt::kCannot;  // something is damaged
  if (!leaf->lock.TryUpgrade(snapshot)) return Attempt::kBusy;
  tree_.Touch(key);
  const bool empty = leaf->bitmap == 0;  // then nothing has to move to the left
  Attempt attempt = Attempt::kCannot;
  for (const bool to_left : {empty, !empty}) {
    attempt = to_left ? MergeWithLeft(worker, leaf) : MergeWithRight(worker, leaf);
    if (to_left && attempt == Attempt::kDone) return attempt;  // the leaf is gone
    if (attempt != Attempt::kCannot) break;
  }
  leaf->lock.Unlock();
  return attempt;
}

// The lock of the left one keeps the right one in the tree.
template <class C>
auto LeafMerger<C>::MergeWithRight(Worker& worker, Mnode<C>* leaf) -> Attempt {
  Mnode<C>* right = leaf->right;
  if (right == nullptr || !IsTouched(*right)) return Attempt::kCannot;
  if (!right->lock.TryLock()) return Attempt::kBusy;
  const Attempt attempt = Merge(worker, leaf, right);
  if (attempt != Attempt::kDone) right->lock.Unlock();
  return attempt;
}

// The left neighbour of a gap stays its left one, and its first leaf gets the gap's Mnode.
template <class C>
bool LeafMerger<C>::IsTouched(const Mnode<C>& right) const {
  {
    const OptimisticSection section;
    if (!right.gap) return true;
  }
  uint64_t snapshot;
  return tree_.top.Find(C::KeyOf(right.low), &snapshot) != nullptr;
}

template <class C>
auto LeafMerger<C>::MergeWithLeft(Worker& worker, Mnode<C>* leaf) -> Attempt {
  const Key low = C::KeyOf(leaf->low);
  if (C::Compare(leaf->low, C::MinusInfinity()) == 0) return Attempt::kCannot;
  uint64_t snapshot;
  Mnode<C>* left = tree_.top.FindBefore(low, &snapshot);
  if (left == nullptr) return Attempt::kCannot;
  if (!left->lock.TryUpgrade(snapshot)) return Attempt::kBusy;
  const Attempt attempt = left->right == leaf ? Merge(worker, left, leaf) : Attempt::kBusy;
  left->lock.Unlock();
  return attempt;
}

// Both are locked. kDone: the right one is unlocked, and gone.
template <class C>
auto LeafMerger<C>::Merge(Worker& worker, Mnode<C>* left, Mnode<C>* right) -> Attempt {
  Mnode<C>* buffered[2];
  size_t count = 0;
  for (Mnode<C>* leaf : {left, right}) {
    if (!leaf->buffered()) continue;
    tree_.Touch(C::KeyOf(leaf->low));
    buffered[count++] = leaf;
  }
  (void)flusher_.Empty(worker, {buffered, count});
  if (!AreSparse(left->bitmap, right->bitmap)) return Attempt::kCannot;
  tree_.Touch(C::KeyOf(left->low));
  tree_.Touch(C::KeyOf(right->low));
  media::Bnode* gone = right->bnode;
  LeafChange<C> change(left);
  for (uint64_t slots = right->bitmap; slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    writer_.AddPair(&change, SlotPair(*gone, slot));
  }
  Commit(&change, *gone);
  Publish(change, right);
  FreeRight(worker, gone);
  worker.counters.Add(WorkerCounters::kLeafMerges);
  return Attempt::kDone;
}

// The bitmap, then `next`, which moves hkey. One line, which keeps their order unless its words may
// tear.
template <class C>
void LeafMerger<C>::Commit(LeafChange<C>* change, media::Bnode& right) {
  pmem::Medium& medium = tree_.medium;
  media::Bnode* bnode = change->leaf->bnode;
  if (medium.Canary("sptree.merge.next_first")) {
    medium.Store(bnode->next, right.next.LoadRelaxed());
  }
  writer_.Stage(change);
  MarkDropped(right);
  LODGEKV_CRASH_POINT(medium, "sptree.merge.1");
  medium.OrderStores();
  // Both buffers are empty: so the watermark of either is true for the left one.
  const uint64_t watermark = std::max(WatermarkOf(*bnode), WatermarkOf(right));
  const bool raises =
      watermark != WatermarkOf(*bnode) && !medium.Canary("sptree.merge.low_watermark");
  if (change->changes() || raises) {
    if (raises) medium.StoreOrdered(bnode->watermark, CheckedWord(watermark));
    if (change->changes()) medium.StoreOrdered(bnode->bitmap, change->bitmap);
    if (medium.strict_order()) {
      medium.FlushLine(bnode);
      LODGEKV_CRASH_POINT(medium, "sptree.merge.2");
      medium.OrderStores();
    }
  }
  medium.StoreOrdered(bnode->next, right.next.LoadRelaxed());
  medium.FlushLine(bnode);
  LODGEKV_CRASH_POINT(medium, "sptree.merge.3");
  medium.Fence();
}

// Flushed, not fenced.
template <class C>
void LeafMerger<C>::MarkDropped(media::Bnode& right) {
  if (tree_.medium.Canary("sptree.merge.not_marked")) return;
  tree_.medium.Store(right.dropped, media::kDropped);
  tree_.medium.FlushLine(&right);
}

template <class C>
void LeafMerger<C>::Publish(const LeafChange<C>& change, Mnode<C>* right) {
  Mnode<C>* left = change.leaf;
  LeafCommits<Mnode<C>>::BeginPublish(*left);
  LeafCommits<Mnode<C>>::BeginPublish(*right);
  const auto gone_high = std::exchange(left->high, right->high);
  left->right = right->right;
  writer_.SetSlots(left, change.bitmap);
  tree_.top.Remove(right);
  tree_.commits.EndPublish(*left);
  tree_.commits.EndPublish(*right);
  C::Release(tree_.texts, gone_high);
  C::Release(tree_.texts, right->low);
  right->lock.Unlock();
  tree_.mnodes.Free(right);
  LODGEKV_CRASH_POINT(tree_.medium, "sptree.merge.4");
}

template <class C>
void LeafMerger<C>::FreeRight(Worker& worker, media::Bnode* right) {
  if (tree_.medium.failed()) return;
  const pmem::Offset offset = tree_.pool.OffsetOf(right);
  if (tree_.backup.Keeps(offset)) return;
  fences_.Retire(worker, FenceOf(*right));
  const bool stays = tree_.medium.Canary("sptree.merge.leaf_stays");
  if (!stays) tree_.bnodes.Free(offset);
}

template class LeafMerger<Fixed64Codec>;
template class LeafMerger<BytesCodec>;

}  // namespace lodgekv::sptree
