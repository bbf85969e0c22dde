// Scan: leaf by leaf (node/leaf_scan.h). While the inner node above stays the same, the next leaf
// is its next child, whose lines were prefetched; otherwise it is found by its bound.
#include <bit>

#include "index/lbtree/lbtree.h"
#include "index/node/leaf_scan.h"
#include "index/node/optimistic_section.h"

namespace lodgekv::lbtree {

namespace {
// How many leaves ahead are fetched, and how many pairs a leaf usually holds at least.
constexpr unsigned kLeavesAhead = 8;
constexpr unsigned kUsualPairs = 8;

// The position of a scan in the chain of leaves: the Cursor of node/leaf_scan.h. Used by one
// thread.
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
  void PrefetchAhead(unsigned distance, bool reverse, uint64_t wanted) const;

  const TreeState<C>& tree_;
  const media::Block* leaf_ = nullptr;  // the next one
  uint64_t snapshot_ = 0;
  typename Inner::Place place_;
};

template <class C>
void Cursor<C>::Seek(const Key* near, bool reverse, uint64_t wanted) {
  const auto seek = reverse ? Inner::Seek::kBefore : Inner::Seek::kCovering;
  leaf_ = tree_.inner.DescendToPlace(near, seek, &snapshot_, &place_);
  place_.PrefetchBeside(/*to_left=*/reverse, wanted / kUsualPairs);
  for (unsigned i = 1; i < kLeavesAhead; ++i) PrefetchAhead(i, reverse, wanted);
}

// False: the leaf has changed since it was found.
template <class C>
bool Cursor<C>::Copy(bool reverse, uint64_t wanted, Leaf* copy) const {
  if (tree_.settling.unfinished()) [[unlikely]]
    TouchLeaf();
  const OptimisticSection section;
  PrefetchAhead(kLeavesAhead, reverse, wanted);
  unsigned count = 0;
  const LeafView view = tree_.locks.ViewOf(leaf_);
  for (unsigned b = 0; b < tree_.blocks; ++b) {
    for (uint32_t slots = view.SlotsOf(b); slots != 0; slots &= slots - 1) {
      const Pair pair = view.PairAt(b, static_cast<unsigned>(std::countr_zero(slots)));
      copy->words[count] = pair.key;
      copy->values[count++] = pair.value;
    }
  }
  copy->count = count;
  copy->prefix = 0;
  copy->low = place_.bounds.low;
  copy->high = place_.bounds.high;
  copy->bounded = place_.bounds.bounded;
  return tree_.locks.Of(leaf_).Validate(snapshot_);
}

// Its range may begin in the stretch of a removed leaf that was to its left.
template <class C>
void Cursor<C>::TouchLeaf() const {
  tree_.settling.Touch(C::TextOf(place_.bounds.low));
  if (place_.bounds.bounded) tree_.settling.Touch(C::TextOf(place_.bounds.high));
}

template <class C>
void Cursor<C>::PrefetchAhead(unsigned distance, bool reverse, uint64_t wanted) const {
  if (wanted <= distance * kUsualPairs) return;
  const int step = static_cast<int>(distance);
  const auto* leaf = tree_.inner.NeighbourAt(place_, reverse ? -step : step);
  if (leaf == nullptr) return;
  Prefetch(&tree_.locks.Of(leaf));
  PrefetchLines(leaf, tree_.leaf_bytes());
}

}  // namespace

template <class C>
Outcome LbTree<C>::Scan(const ScanOptions& options, ScanVisitor visitor) {
  return LeafScan<C, Cursor<C>>(tree_.pool, tree_.codec, tree_.values, Cursor<C>(tree_), options)
      .Run(visitor);
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
