// The leaves that a scan will come to, to be fetched before it does: as the root of the sub-index
// names them, then those of the next sub-index, whose anchor and root are fetched in time.
//
// What is read here may be changing, or be something else by now: it is only fetched, and nothing
// outside of the pool is read. Used by one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/tlbtree/descent.h"

namespace lodgekv::tlbtree {

template <class C>
class LeavesAhead {
 public:
  using Node = media::Node<C>;

  explicit LeavesAhead(const TreeState<C>& tree) : tree_(tree) {}

  // The scan is at `place`, goes to the right, and wants so many pairs.
  void Start(const LeafPlace<C>& place, uint64_t wanted) {
    passed_ = known_ = 0;
    root_ = 0;
    anchor_ = place.next_anchor;
    Prefetch(tree_.AnchorAt(anchor_));
    if (place.root == nullptr) return;
    Append(*place.root, tree_.pool.OffsetOf(place.leaf));
    for (unsigned i = 1; i < kLeavesAhead; ++i) FetchLeaf(i, wanted);
  }
  // The scan is at the next leaf.
  void Pass() { ++passed_; }
  // Call once at each leaf.
  void Fetch(uint64_t wanted) {
    FetchLeaf(kLeavesAhead, wanted);
    if (passed_ + kLeavesAhead + 1 >= known_ && wanted > kLeavesAhead * kUsualPairs) GoOn();
  }

 private:
  static constexpr unsigned kLeavesAhead = 3;
  static constexpr unsigned kUsualPairs = 6;  // that a leaf holds at least
  static constexpr unsigned kRoom = 32;
  static_assert(kRoom >= Node::kChildren + 1 + kLeavesAhead + 1);

  void FetchLeaf(unsigned distance, uint64_t wanted) const {
    const unsigned at = passed_ + distance;
    if (at < known_ && wanted > distance * kUsualPairs) FetchNode(leaves_[at % kRoom]);
  }
  void FetchNode(pmem::Offset node) const { PrefetchLines(tree_.NodeAt(node), sizeof(Node)); }
  bool IsInPool(pmem::Offset node) const { return node < tree_.pool.bytes(); }

  // A step towards the leaves of the next sub-index: its root is fetched, or read.
  void GoOn() {
    const OptimisticSection section;
    if (root_ != 0) {
      Append(*tree_.NodeAt(root_), 0);
      root_ = 0;
    } else if (anchor_ != 0 && IsInPool(anchor_)) {
      const AnchorView view = AnchorView::Of(*tree_.AnchorAt(anchor_));
      anchor_ = view.next;
      Prefetch(tree_.AnchorAt(anchor_));
      if (view.root.height > 1 && !view.root.dead && IsInPool(view.root.node)) {
        root_ = view.root.node;
        FetchNode(root_);
      }
    }
  }
  // The leaves below a root, those from `first` on; 0: all.
  void Append(const Node& root, pmem::Offset first) {
    const OptimisticSection section;
    const NodeState state(root.state.LoadRelaxed());
    const unsigned count = std::min(state.count(), Node::kChildren);
    for (unsigned i = 0; i <= count; ++i) {
      const pmem::Offset leaf =
          i == 0 ? root.leftmost.LoadRelaxed() & kCheckedMask
                 : NodeOf(root.children[state.SlotAt(i - 1) % Node::kChildren].node.LoadRelaxed());
      if (leaf == first) first = 0;
      if (first == 0) leaves_[known_++ % kRoom] = leaf;
    }
  }

  const TreeState<C>& tree_;
  std::array<pmem::Offset, kRoom> leaves_{};  // a ring; the scan is at passed_
  unsigned passed_ = 0;
  unsigned known_ = 0;
  pmem::Offset anchor_ = 0;  // of the sub-index after these leaves; 0: none
  pmem::Offset root_ = 0;    // its root, which is being fetched
};

}  // namespace lodgekv::tlbtree
