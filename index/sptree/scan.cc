// Scan (SPTree 4.4, Alg. 1): leaf by leaf (node/leaf_scan.h), to the right along the Mnodes. A leaf
// whose `seqs` are outdated is sorted on the way; one that a writer has locked is sorted by the
// scan for itself.
#include <algorithm>
#include <bit>

#include "index/node/leaf_scan.h"
#include "index/node/optimistic_section.h"
#include "index/node/pair_order.h"
#include "index/sptree/sptree.h"

namespace lodgekv::sptree {

namespace {

// The position of a scan among the leaves: the Cursor of node/leaf_scan.h. Used by one thread.
template <class C>
class Cursor {
 public:
  using Key = typename C::Key;

  struct Leaf : ScannedLeaf<C, kBnodeSlots> {
    bool sorted;  // the pairs, by their keys

    unsigned pairs() const { return this->count; }
    template <class F>
    void ForEachValue(F f) const {
      for (unsigned i = 0; i < this->count; ++i) f(this->values[i]);
    }
  };

  explicit Cursor(TreeState<C>& tree) : tree_(tree) {}

  bool has_place() const { return leaf_ != nullptr; }
  bool damaged() const { return leaf_ == nullptr; }  // after Seek
  void Forget() { leaf_ = nullptr; }
  void Seek(const Key* near, bool reverse, uint64_t wanted);
  bool Copy(bool reverse, uint64_t wanted, Leaf* copy);
  void Advance(bool reverse, const Leaf& copy);
  void MergeInto(const Leaf&, ScanRun*) const {}

 private:
  [[gnu::noinline, gnu::cold]] void TouchLeaf() const;
  void SortLeaf();
  void CopyPairs(Leaf* copy) const;
  static void CopyBuffered(const WriteBuffer& buffer, Leaf* copy);
  void CopySlot(unsigned slot, Leaf* copy) const {
    const media::Slot& at = leaf_->bnode->slots[slot];
    copy->words[copy->count] = at.key.LoadRelaxed();
    copy->values[copy->count++] = tree_.commits.Durable(*leaf_, at.value);
  }
  void PrefetchRight() const;

  TreeState<C>& tree_;
  Mnode<C>* leaf_ = nullptr;  // the next one
  uint64_t snapshot_ = 0;
};

template <class C>
void Cursor<C>::Seek(const Key* near, bool reverse, uint64_t) {
  if (near == nullptr) {
    leaf_ = tree_.top.FindLast(&snapshot_);
  } else if (reverse) {
    leaf_ = tree_.top.FindBefore(*near, &snapshot_);
  } else {
    leaf_ = tree_.top.Find(*near, &snapshot_);
  }
}

// Nothing is published: readers that have the same version go on. So another scan may have sorted
// the leaf since this one looked, and others read that order.
template <class C>
void Cursor<C>::SortLeaf() {
  if (!leaf_->lock.TryUpgrade(snapshot_)) return;
  if (leaf_->sorted.load(std::memory_order_relaxed)) return leaf_->lock.Unlock();
  if (leaf_->seqs == nullptr) leaf_->seqs = static_cast<uint8_t*>(tree_.dram.Allocate(kBnodeSlots));
  uint8_t used[kBnodeSlots];
  unsigned count = 0;
  for (uint64_t slots = leaf_->bitmap; slots != 0; slots &= slots - 1) {
    used[count++] = static_cast<uint8_t>(std::countr_zero(slots));
  }
  uint8_t order[kMostOrdered];
  OrderPairs(
      tree_.codec, count, [&](unsigned i) { return SlotPair(*leaf_->bnode, used[i]); }, order);
  for (unsigned i = 0; i < count; ++i) leaf_->seqs[i] = used[order[i]];
  leaf_->sorted.store(true, std::memory_order_release);
  leaf_->lock.Unlock();
  tree_.workers.Current().counters.Add(WorkerCounters::kSortedLeaves);
}

// Of leaf and buffer together no more than a leaf has slots, also where both are changing.
template <class C>
void Cursor<C>::CopyPairs(Leaf* copy) const {
  uint64_t bitmap = leaf_->bitmap;
  if (copy->sorted) {
    const auto count = static_cast<unsigned>(std::popcount(bitmap));
    for (unsigned i = 0; i < count; ++i) CopySlot(leaf_->seqs[i] % kBnodeSlots, copy);
    return;
  }
  if (const WriteBuffer* buffer = leaf_->Buffered()) {
    bitmap &= ~buffer->ReplacedSlots();
    CopyBuffered(*buffer, copy);
  }
  for (uint64_t slots = bitmap; slots != 0 && copy->count < kBnodeSlots; slots &= slots - 1) {
    CopySlot(static_cast<unsigned>(std::countr_zero(slots)), copy);
  }
}

template <class C>
void Cursor<C>::CopyBuffered(const WriteBuffer& buffer, Leaf* copy) {
  for (unsigned i = 0; i < buffer.pairs(); ++i) {
    if (buffer.IsTombstone(i)) continue;
    const Pair pair = buffer.PairAt(i);
    copy->words[copy->count] = pair.key;
    copy->values[copy->count++] = pair.value;
  }
}

// False: the leaf has changed since it was found.
template <class C>
bool Cursor<C>::Copy(bool reverse, uint64_t wanted, Leaf* copy) {
  if (tree_.settling.unfinished()) [[unlikely]]
    TouchLeaf();
  const bool uses_seqs = tree_.parameters.seqs;
  if (uses_seqs && !leaf_->buffered() && !leaf_->sorted.load(std::memory_order_acquire)) SortLeaf();
  const OptimisticSection section;
  if (!reverse && wanted > kBnodeSlots / 2) PrefetchRight();
  copy->count = 0;
  copy->sorted = uses_seqs && !leaf_->buffered() && leaf_->sorted.load(std::memory_order_acquire);
  CopyPairs(copy);
  copy->prefix = 0;
  copy->low = leaf_->low;
  copy->high = leaf_->high;
  copy->bounded = leaf_->bounded();
  return leaf_->lock.Validate(snapshot_);
}

// To the left by another descent.
template <class C>
void Cursor<C>::Advance(bool reverse, const Leaf&) {
  if (reverse) return Forget();
  const OptimisticSection section;
  Mnode<C>* right = leaf_->right;
  const uint64_t snapshot = right == nullptr ? 0 : right->lock.ReadBegin();
  const bool gap = right != nullptr && right->gap;  // to be touched first, by a descent
  // Was it the right one at that version?
  if (gap || !leaf_->lock.Validate(snapshot_)) return Forget();
  leaf_ = right;
  snapshot_ = snapshot;
}

// The slots of the right leaf, and the Mnode of the one after it.
template <class C>
void Cursor<C>::PrefetchRight() const {
  const Mnode<C>* right = leaf_->right;
  if (right == nullptr) return;
  PrefetchLines(right->bnode->slots, sizeof(media::Bnode::slots));
  if (right->right != nullptr) Prefetch(right->right);
}

template <class C>
void Cursor<C>::TouchLeaf() const {
  std::string low;
  std::string high;
  bool bounded;
  {
    const OptimisticSection section;
    bounded = leaf_->bounded();
    low = C::TextOf(leaf_->low);
    if (bounded) high = C::TextOf(leaf_->high);
  }
  tree_.settling.Touch(low);
  if (bounded) tree_.settling.Touch(high);
}

}  // namespace

template <class C>
Outcome SpTree<C>::Scan(const ScanOptions& options, ScanVisitor visitor) {
  return LeafScan<C, Cursor<C>>(tree_.pool, tree_.codec, tree_.values, Cursor<C>(tree_), options)
      .Run(visitor);
}

template class SpTree<Fixed64Codec>;
template class SpTree<BytesCodec>;

}  // namespace lodgekv::sptree
