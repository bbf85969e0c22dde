// Scan: leaf by leaf (node/leaf_scan.h). Forwards the next leaf is the sibling; backwards, and when
// something has changed, it is found by its bound.
#include <array>
#include <cstring>
#include <memory>
#include <new>

#include "index/node/leaf_scan.h"
#include "index/node/optimistic_section.h"
#include "index/tlbtree/leaves_ahead.h"
#include "index/tlbtree/tlbtree.h"

namespace lodgekv::tlbtree {

namespace {

// The text of a bound in the form in which scans compare it. Owns the memory.
class BoundText {
 public:
  const SeparatorText* Set(std::string_view text) {
    if (text.empty()) return SeparatorText::Empty();
    const size_t words = (sizeof(SeparatorText) + text.size()) / sizeof(uint64_t) + 1;
    if (words > capacity_) {
      words_ = std::make_unique<uint64_t[]>(words);
      capacity_ = words;
    }
    auto* made = new (words_.get()) SeparatorText{static_cast<uint32_t>(text.size()), 1};
    std::memcpy(reinterpret_cast<char*>(words_.get()) + sizeof(*made), text.data(), text.size());
    return made;
  }

 private:
  std::unique_ptr<uint64_t[]> words_;
  size_t capacity_ = 0;
};

// The position of a scan in the chain of leaves: the Cursor of node/leaf_scan.h. Used by one
// thread.
template <class C>
class Cursor {
 public:
  using Key = typename C::Key;
  using Node = media::Node<C>;

  struct Leaf : ScannedLeaf<C, Node::kSlots> {
    unsigned pairs() const { return this->count; }
    template <class F>
    void ForEachValue(F f) const {
      for (unsigned i = 0; i < this->count; ++i) f(this->values[i]);
    }
  };

  explicit Cursor(TreeState<C>& tree) : tree_(tree), descent_(tree), ahead_(tree) {}

  bool has_place() const { return place_.leaf != nullptr; }
  void Forget() { place_.leaf = nullptr; }
  bool damaged() const { return place_.leaf == nullptr; }  // after Seek
  void Seek(const Key* near, bool reverse, uint64_t wanted);
  bool Copy(bool reverse, uint64_t wanted, Leaf* copy);
  void Advance(bool reverse, const Leaf&);
  void MergeInto(const Leaf&, ScanRun*) const {}

 private:
  // The scan looks at the bounds of a leaf until it has passed the next one.
  static constexpr unsigned kBoundsKept = 8;

  typename C::Separator Bound(const Low& low);

  TreeState<C>& tree_;
  const Descent<C> descent_;
  LeafPlace<C> place_;  // the next leaf
  // What the leaf that was copied leads to.
  LinkTo sibling_;
  LeavesAhead<C> ahead_;  // forwards
  std::array<BoundText, kBoundsKept> texts_;
  unsigned next_text_ = 0;
};

template <class C>
void Cursor<C>::Seek(const Key* near, bool reverse, uint64_t wanted) {
  const EpochGuard guard;
  descent_.ToLeaf(Target<C>{near, reverse}, &place_);
  if (!reverse && place_.leaf != nullptr) ahead_.Start(place_, wanted);
}

template <class C>
typename C::Separator Cursor<C>::Bound(const Low& low) {
  if constexpr (C::kRecords) {
    char scratch[8];
    return texts_[next_text_++ % kBoundsKept].Set(TextOfLow(tree_.pool, low, scratch));
  } else {
    return low.word;
  }
}

// False: the leaf has changed since it was found.
template <class C>
bool Cursor<C>::Copy(bool, uint64_t wanted, Leaf* copy) {
  const OptimisticSection section;
  ahead_.Fetch(wanted);
  const LeafView<C> view = tree_.locks.ViewOf(place_.leaf);
  const unsigned count = std::min(view.state().count(), Node::kSlots);
  for (unsigned i = 0; i < count; ++i) {
    const Pair pair = view.PairAt(view.state().SlotAt(i));
    copy->words[i] = pair.key;
    copy->values[i] = pair.value;
  }
  sibling_ = view.sibling();
  PrefetchLines(tree_.NodeAt(sibling_.node()), sizeof(Node));
  if (!tree_.locks.Of(place_.leaf).Validate(place_.snapshot)) return false;
  const OptimisticSection::Validated validated;
  copy->count = count;
  copy->prefix = 0;
  copy->bounded = sibling_.node() != 0;
  copy->low = Bound(place_.low);
  copy->high = Bound(copy->bounded ? sibling_.low : Low{});
  return true;
}

// To the sibling, if the leaf still leads there, and, in the first moments of a pool, if somebody
// has touched it.
template <class C>
void Cursor<C>::Advance(bool reverse, const Leaf&) {
  Node* leaf = place_.leaf;
  Forget();
  if (reverse || sibling_.node() == 0 || tree_.touch.active()) return;
  Node* next = tree_.NodeAt(sibling_.node());
  const uint64_t snapshot = tree_.locks.Of(next).ReadBegin();
  if (!tree_.locks.Of(leaf).Validate(place_.snapshot)) return;
  place_.leaf = next;
  place_.snapshot = snapshot;
  place_.low = sibling_.low;
  ahead_.Pass();
}

}  // namespace

template <class C>
Outcome TlbTree<C>::Scan(const ScanOptions& options, ScanVisitor visitor) {
  return LeafScan<C, Cursor<C>>(tree_.pool, tree_.codec, tree_.values, Cursor<C>(tree_), options)
      .Run(visitor);
}

template class TlbTree<Fixed64Codec>;
template class TlbTree<BytesCodec>;

}  // namespace lodgekv::tlbtree
