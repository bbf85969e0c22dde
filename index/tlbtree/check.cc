// Check: reads the whole structure, compares what lies above the leaves with their chain, and
// counts. All locks are held, so writers wait and the counts are consistent; CheckInPassing holds
// them for a few leaves at a time.
#include <algorithm>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "index/node/leaf_chain_checker.h"
#include "index/tlbtree/leaf_walk.h"
#include "index/tlbtree/tlbtree.h"

namespace lodgekv::tlbtree {

namespace {

// One run of Check over all leaves. Used by one thread, concurrent with writers.
template <class C>
class Checker : LeafChainChecker {
 public:
  using Node = media::Node<C>;

  explicit Checker(TreeState<C>& tree)
      : tree_(tree), walk_(tree), descent_(tree), node_check_(tree) {}

  CheckReport Run() {
    tree_.locks.LockAll();
    CheckChain();
    CheckAnchors();
    // Without a tracer other threads allocate and retire meanwhile.
    if (tree_.medium.tracer() != nullptr) CheckSpace();
    tree_.locks.UnlockAll();
    return Report();
  }

  CheckReport RunInPassing(CheckPause go_on) {
    std::string from = C::TextOf(C::MinusInfinity());
    bool more = true;
    while (more) {
      more = CheckSomeLeaves(&from);
      if (more && !go_on()) return Report();
    }
    CountAnchors();
    return Report();
  }

 private:
  // In passing, writers wait for this many leaves: well below a millisecond.
  static constexpr unsigned kLeavesAtATime = 64;

  CheckReport Report() {
    report_.bytes_reachable += record_bytes_;
    return std::move(report_);
  }
  bool CheckSomeLeaves(std::string* from);
  void CheckChain();
  void CheckLeaf(const LeafPlace<C>& place, const NodeState& state);
  void CheckPairs(const LeafPlace<C>& place, const NodeState& state);
  void CheckAnchors();
  void CountAnchors();
  void CheckSubIndex(const AnchorPlace& place);
  void CheckEntry(const LinkTo& link, pmem::Offset anchor);
  void CheckSpace();
  void CountLow(const Low& low) {
    const pmem::Offset record = RecordOfLow<C>(low);
    if (record != 0) record_bytes_ += tree_.slab.SpaceAt(record);
  }

  TreeState<C>& tree_;
  const LeafWalk<C> walk_;
  const Descent<C> descent_;
  const NodeCheck<C> node_check_;
  uint64_t record_bytes_ = 0;
  uint64_t roots_ = 0;
  uint64_t anchors_ = 0;
  absl::flat_hash_set<pmem::Offset> leaves_;  // of the chain
};

// False: none are left.
template <class C>
bool Checker<C>::CheckSomeLeaves(std::string* from) {
  unsigned left = kLeavesAtATime;
  bool more = false;
  tree_.locks.LockAll();
  const bool sound = walk_.ForEach(*from, [&](const LeafPlace<C>& place, const NodeState& state) {
    CheckLeaf(place, state);
    more = place.high.node() != 0;
    if (more) *from = OwnTextOfLow<C>(tree_.pool, place.high.low);
    return --left > 0;
  });
  tree_.locks.UnlockAll();
  if (!sound) Problem("something is damaged in a leaf, or on the way to it");
  return sound && more;
}

template <class C>
void Checker<C>::CheckChain() {
  const bool sound = walk_.ForEach([&](const LeafPlace<C>& place, const NodeState& state) {
    CheckLeaf(place, state);
    leaves_.insert(tree_.pool.OffsetOf(place.leaf));
    return true;
  });
  if (!sound) Problem("something is damaged in a leaf, or on the way to it");
}

template <class C>
void Checker<C>::CheckLeaf(const LeafPlace<C>& place, const NodeState& state) {
  const pmem::Offset offset = tree_.pool.OffsetOf(place.leaf);
  ++report_.leaves;
  report_.bytes_reachable += sizeof(Node);
  if (!node_check_.LeafIsSound(place.leaf)) Problem("leaf ", offset, ": damaged");
  CountLow(place.high.low);
  CheckPairs(place, state);
  report_.keys += state.count();
}

template <class C>
void Checker<C>::CheckPairs(const LeafPlace<C>& place, const NodeState& state) {
  const pmem::Offset offset = tree_.pool.OffsetOf(place.leaf);
  const std::string low = OwnTextOfLow<C>(tree_.pool, place.low);
  const std::string high = OwnTextOfLow<C>(tree_.pool, place.high.low);
  std::optional<Pair> last;
  for (unsigned i = 0; i < state.count(); ++i) {
    const media::Slot& slot = place.leaf->slots[state.SlotAt(i)];
    const Pair pair{slot.key.LoadRelaxed(), slot.value.LoadRelaxed()};
    if constexpr (C::kRecords) {
      if (CheckRecordPair(tree_.codec, tree_.pool, tree_.slab, offset, pair)) {
        record_bytes_ += tree_.slab.SpaceAt(C::RecordOf(pair.value));
      }
    }
    const std::string text = tree_.KeyOf(pair);
    if (text < low || (place.high.node() != 0 && text >= high)) {
      Problem("leaf ", offset, ": key out of the leaf's range");
    }
    if (last && !tree_.codec.Less(*last, pair)) {
      Problem("leaf ", offset,
              tree_.codec.SameKey(*last, pair) ? ": a key twice" : ": keys out of order");
    }
    last = pair;
  }
}

template <class C>
void Checker<C>::CheckAnchors() {
  const EpochGuard guard;
  std::string last;
  for (pmem::Offset at = tree_.first_anchor(); at != 0;) {
    AnchorPlace place;
    if (!descent_.ViewAnchor(at, &place)) return Problem("anchor ", at, ": damaged");
    report_.bytes_reachable += sizeof(media::Anchor);
    CountLow(place.view.low);
    at = place.view.next;
    ++anchors_;
    if (place.view.root.dead) continue;  // it may be anywhere
    const std::string low = OwnTextOfLow<C>(tree_.pool, place.view.low);
    if (place.offset != tree_.first_anchor() && low <= last) {
      Problem("anchor ", place.offset, ": not above the one to its left");
    }
    last = low;
    CheckSubIndex(place);
  }
}

// In passing: the space alone.
template <class C>
void Checker<C>::CountAnchors() {
  const EpochGuard guard;
  for (pmem::Offset at = tree_.first_anchor(); at != 0;) {
    AnchorPlace place;
    if (!descent_.ViewAnchor(at, &place)) return Problem("anchor ", at, ": damaged");
    const bool root = !place.view.root.dead && place.view.root.height > 1;
    report_.bytes_reachable += sizeof(media::Anchor) + (root ? sizeof(Node) : 0);
    CountLow(place.view.low);
    at = place.view.next;
  }
}

template <class C>
void Checker<C>::CheckSubIndex(const AnchorPlace& place) {
  LinkTo first{place.view.low, place.view.root.node};
  if (place.view.root.height > 1) {
    ++roots_;
    report_.bytes_reachable += sizeof(Node);
    const Node* root = tree_.NodeAt(place.view.root.node);
    if (!node_check_.RootIsSound(root)) {
      return Problem("anchor ", place.offset, ": a damaged root");
    }
    const NodeState state(root->state.LoadRelaxed());
    first = {place.view.low, root->leftmost.LoadRelaxed()};
    for (unsigned i = 0; i < state.count(); ++i) {
      CheckEntry(LoadLink(root->children[state.SlotAt(i)]), place.offset);
    }
  }
  CheckEntry(first, place.offset);
}

template <class C>
void Checker<C>::CheckEntry(const LinkTo& link, pmem::Offset anchor) {
  if (!leaves_.contains(link.node())) {
    Problem("anchor ", anchor, ": leads to ", link.node(), ", which is not in the chain");
  }
}

// Nothing leaks, and nothing has two owners.
template <class C>
void Checker<C>::CheckSpace() {
  if (tree_.rest.unfinished()) return;  // what nobody owns still counts as used
  uint64_t spare = 0;
  uint64_t waiting = 0;  // retired, not yet freed
  tree_.workers.ForEach([&](const Worker& worker) {
    spare += worker.spare_leaves.size();
    for (const pmem::Offset record : worker.spare_lows) waiting += tree_.slab.SpaceAt(record);
    waiting += worker.retired.bytes();
  });
  for (const pmem::Offset anchor : tree_.top.DroppedAnchors()) {
    ++anchors_;
    CountLow(AnchorView::Of(*tree_.AnchorAt(anchor)).low);
  }
  if (tree_.nodes.used_units() != report_.leaves + roots_ + spare) {
    Problem(tree_.nodes.used_units(), " nodes are taken, ", report_.leaves + roots_, " reached, ",
            spare, " spare");
  }
  if (tree_.anchors.used_units() != anchors_) {
    Problem(tree_.anchors.used_units(), " anchors are taken, ", anchors_, " reached");
  }
  const uint64_t used = tree_.slab.used_bytes();
  const uint64_t reached = record_bytes_ + tree_.top.space_bytes();
  if (used == reached + waiting) return;
  Problem(used, " bytes are taken by records, ", reached, " by those reached, ", waiting,
          " are about to be freed");
}

}  // namespace

template <class C>
CheckReport TlbTree<C>::Check() {
  return Checker<C>(tree_).Run();
}

template <class C>
CheckReport TlbTree<C>::CheckInPassing(CheckPause go_on) {
  return Checker<C>(tree_).RunInPassing(go_on);
}

template class TlbTree<Fixed64Codec>;
template class TlbTree<BytesCodec>;

}  // namespace lodgekv::tlbtree
