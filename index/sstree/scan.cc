// Scan: leaf by leaf (node/leaf_scan.h). While the inner node above stays the same, the next leaf
// is its next child, which was prefetched; otherwise it is found by its bound.
#include <bit>

#include "index/node/leaf_scan.h"
#include "index/node/optimistic_section.h"
#include "index/sstree/sstree.h"

namespace lodgekv::sstree {

namespace {
// How many leaves ahead are fetched, and how many pairs a leaf usually holds at least.
constexpr unsigned kLeavesAhead = 3;
constexpr unsigned kUsualPairs = 14;

// The position of a scan among the leaves: the Cursor of node/leaf_scan.h. Used by one thread.
template <class C>
class Cursor {
 public:
  using Key = typename C::Key;
  using Inner = typename TreeState<C>::Inner;

  struct Leaf : ScannedLeaf<C, kMaxLeafSlots> {
    unsigned pairs() const { return this->count; }
    template <class F>
    void ForEachValue(F f) const {
      for (unsigned i = 0; i < this->count; ++i) f(this->values[i]);
    }
  };

  explicit Cursor(const TreeState<C>& tree) : tree_(tree) {}

  bool has_place() const { return leaf_ != nullptr; }
  void Forget() { leaf_ = nullptr; }
  void Seek(const Key* near, bool reverse, uint64_t wanted);
  bool Copy(bool reverse, uint64_t wanted, Leaf* copy) const;
  void Advance(bool reverse, const Leaf&) {
    leaf_ = tree_.inner.MoveToNeighbour(/*left=*/reverse, &place_, &snapshot_);
  }
  void MergeInto(const Leaf&, ScanRun*) const {}

 private:
  [[gnu::noinline, gnu::cold]] void TouchLeaf() const;
  void CopySlots(const media::Subnode& subnode, uint32_t slots, Leaf* copy) const;
  void PrefetchAhead(unsigned distance, bool reverse, uint64_t wanted) const;
  void PrefetchHeadAhead(unsigned distance, bool reverse, uint64_t wanted) const;
  void PrefetchOverflowAhead(unsigned distance, bool reverse, uint64_t wanted) const;
  static void PrefetchSubnode(const media::Subnode* subnode) {
    PrefetchLines(subnode, sizeof(media::Subnode));
  }
  const sstree::Leaf* LeafAhead(unsigned distance, bool reverse, uint64_t wanted) const {
    if (wanted <= distance * kUsualPairs) return nullptr;
    const int step = static_cast<int>(distance);
    return tree_.inner.NeighbourAt(place_, reverse ? -step : step);
  }

  const TreeState<C>& tree_;
  const sstree::Leaf* leaf_ = nullptr;  // the next one
  uint64_t snapshot_ = 0;
  typename Inner::Place place_;
};

template <class C>
void Cursor<C>::Seek(const Key* near, bool reverse, uint64_t wanted) {
  const auto seek = reverse ? Inner::Seek::kBefore : Inner::Seek::kCovering;
  leaf_ = tree_.inner.DescendToPlace(near, seek, &snapshot_, &place_);
  place_.PrefetchBeside(/*to_left=*/reverse, wanted / kUsualPairs);
  for (unsigned i = 1; i <= kLeavesAhead; ++i) PrefetchAhead(i, reverse, wanted);
  for (unsigned i = 1; i < kLeavesAhead; ++i) PrefetchHeadAhead(i, reverse, wanted);
}

template <class C>
void Cursor<C>::CopySlots(const media::Subnode& subnode, uint32_t slots, Leaf* copy) const {
  for (; slots != 0; slots &= slots - 1) {
    const media::Slot& slot = subnode.slots[std::countr_zero(slots)];
    copy->words[copy->count] = slot.key.LoadRelaxed();
    copy->values[copy->count++] = tree_.commits.Durable(*leaf_, slot.value);
  }
}

// False: the leaf has changed since it was found. A next pointer is followed only in one that has
// not: elsewhere it may be anything.
template <class C>
bool Cursor<C>::Copy(bool reverse, uint64_t wanted, Leaf* copy) const {
  if (tree_.settling.unfinished()) [[unlikely]]
    TouchLeaf();
  const OptimisticSection section;
  PrefetchAhead(kLeavesAhead + 1, reverse, wanted);
  PrefetchHeadAhead(kLeavesAhead, reverse, wanted);
  copy->count = 0;
  const uint64_t valid = tree_.ValidOf(*leaf_);
  const media::Subnode* subnode = tree_.HeadOf(*leaf_);
  CopySlots(*subnode, SlotsOf(valid, 0), copy);
  for (unsigned i = 1; i < kMaxSubnodes && valid >> i * kSubnodeSlots != 0; ++i) {
    const pmem::Offset next = subnode->next.Load() & kCheckedMask;
    if (!leaf_->lock.Validate(snapshot_) || next < pmem::kBlockBytes) return false;
    subnode = tree_.SubnodeAt(next);
    CopySlots(*subnode, SlotsOf(valid, i), copy);
  }
  PrefetchOverflowAhead(1, reverse, wanted);
  copy->prefix = 0;
  copy->low = place_.bounds.low;
  copy->high = place_.bounds.high;
  copy->bounded = place_.bounds.bounded;
  return leaf_->lock.Validate(snapshot_);
}

// Its range may begin in the stretch of a removed leaf that was to its left.
template <class C>
void Cursor<C>::TouchLeaf() const {
  tree_.settling.Touch(C::TextOf(place_.bounds.low));
  if (place_.bounds.bounded) tree_.settling.Touch(C::TextOf(place_.bounds.high));
}

template <class C>
void Cursor<C>::PrefetchAhead(unsigned distance, bool reverse, uint64_t wanted) const {
  const sstree::Leaf* leaf = LeafAhead(distance, reverse, wanted);
  if (leaf != nullptr) leaf->PrefetchForRead();
}

// Of a leaf that was fetched before.
template <class C>
void Cursor<C>::PrefetchHeadAhead(unsigned distance, bool reverse, uint64_t wanted) const {
  const sstree::Leaf* leaf = LeafAhead(distance, reverse, wanted);
  if (leaf == nullptr) return;
  const OptimisticSection section;  // where it was is as good for a prefetch
  PrefetchSubnode(tree_.HeadOf(*leaf));
}

// Of a leaf whose head was fetched before: the subnode that only the head leads to. What it says
// may be outdated; it leads to a prefetch, which may be of anything.
template <class C>
void Cursor<C>::PrefetchOverflowAhead(unsigned distance, bool reverse, uint64_t wanted) const {
  const sstree::Leaf* leaf = LeafAhead(distance, reverse, wanted);
  if (leaf == nullptr) return;
  const OptimisticSection section;
  const LeafPlace place = leaf->place;
  if (!place.more() || place.head() >= tree_.pool.bytes()) return;
  PrefetchSubnode(tree_.NextOf(*tree_.SubnodeAt(place.head())));
}

}  // namespace

template <class C>
Outcome SsTree<C>::Scan(const ScanOptions& options, ScanVisitor visitor) {
  return LeafScan<C, Cursor<C>>(tree_.pool, tree_.codec, tree_.values, Cursor<C>(tree_), options)
      .Run(visitor);
}

template class SsTree<Fixed64Codec>;
template class SsTree<BytesCodec>;

}  // namespace lodgekv::sstree
