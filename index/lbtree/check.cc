// Check: reads the whole structure, compares the inner tree with the medium, and counts. All
// leaves' locks are held, so writers wait and the counts are consistent; CheckInPassing holds them
// for a few leaves at a time.
#include <algorithm>
#include <bit>
#include <optional>

#include "index/lbtree/lbtree.h"
#include "index/lbtree/leaf_walk.h"
#include "index/node/leaf_chain_checker.h"

namespace lodgekv::lbtree {

namespace {

// One run of Check over all leaves. Used by one thread, concurrent with writers.
template <class C>
class Checker : LeafChainChecker {
 public:
  using Bounds = typename TreeState<C>::Bounds;

  explicit Checker(const TreeState<C>& tree) : tree_(tree), walk_(tree) {}

  CheckReport Run() {
    tree_.locks.LockAll();
    Follow(tree_.pool.engine_area()[media::kFirstLeaf]);
    walk_.ForEach([&](const media::Block* leaf, const Bounds& bounds, const uint32_t*) {
      CheckLeaf(leaf, bounds);
      return true;
    });
    ExpectEnd();
    // Without a tracer other threads allocate and retire meanwhile.
    if (tree_.medium.tracer() != nullptr) CheckSpace();
    tree_.locks.UnlockAll();
    return Report();
  }

  CheckReport RunInPassing(CheckPause go_on) {
    while (CheckSomeLeaves() && go_on()) {
    }
    return Report();
  }

 private:
  // In passing, writers wait for this many leaves: well below a millisecond.
  static constexpr unsigned kLeavesAtATime = 64;

  bool CheckSomeLeaves();
  bool EndsAsReached(const Bounds& bounds) const {
    if (!bounds.bounded || !reached_->bounded) return bounds.bounded == reached_->bounded;
    return C::CompareToKey(bounds.high, C::MakeKey(reached_->high)) == 0;
  }
  void FollowBehind(const media::Block* leaf) { Follow(leaf[0].tail[AltOf(leaf) ? 1 : 0]); }
  CheckReport Report() {
    report_.bytes_reachable += record_bytes_;
    return std::move(report_);
  }
  void CheckLeaf(const media::Block* leaf, const Bounds& bounds);
  void CheckBlock(pmem::Offset offset, const media::Block& block, const Header& header,
                  const Bounds& bounds);
  void CheckPair(pmem::Offset where, Pair pair);
  void CheckSpace();

  const TreeState<C>& tree_;
  const LeafWalk<C> walk_;
  uint64_t record_bytes_ = 0;
  std::vector<Pair> pairs_;  // of the current leaf
  // In passing: the bounds of the last checked leaf.
  struct Reached {
    std::string low;
    std::string high;
    bool bounded;
  };
  std::optional<Reached> reached_;
};

// Locks the next leaves in passing, continuing the chain at the last checked leaf. False: none are
// left.
template <class C>
bool Checker<C>::CheckSomeLeaves() {
  unsigned left = kLeavesAtATime;
  tree_.locks.LockAll();
  if (!reached_) Follow(tree_.pool.engine_area()[media::kFirstLeaf]);
  const auto visit = [&](const media::Block* leaf, const Bounds& bounds, const uint32_t*) {
    const bool takes_up = left == kLeavesAtATime && reached_;
    const bool again = takes_up && EndsAsReached(bounds);
    if (takes_up) TakeUpAt(tree_.pool.OffsetOf(leaf));
    again ? FollowBehind(leaf) : CheckLeaf(leaf, bounds);
    reached_ = {C::TextOf(bounds.low), bounds.bounded ? C::TextOf(bounds.high) : std::string(),
                bounds.bounded};
    return --left > 0;
  };
  walk_.ForEach(reached_ ? reached_->low : C::TextOf(C::MinusInfinity()), visit);
  if (left > 0) ExpectEnd();
  tree_.locks.UnlockAll();
  return left == 0;
}

template <class C>
void Checker<C>::CheckLeaf(const media::Block* leaf, const Bounds& bounds) {
  const pmem::Offset offset = tree_.pool.OffsetOf(leaf);
  ++report_.leaves;
  report_.bytes_reachable += tree_.leaf_bytes();
  ExpectLeaf(offset);
  FollowBehind(leaf);
  pairs_.clear();
  for (unsigned b = 0; b < tree_.blocks; ++b)
    CheckBlock(offset, leaf[b], HeaderOf(leaf, b), bounds);
  std::sort(pairs_.begin(), pairs_.end(), [&](Pair a, Pair b) { return tree_.codec.Less(a, b); });
  for (size_t i = 1; i < pairs_.size(); ++i) {
    if (tree_.codec.SameKey(pairs_[i - 1], pairs_[i])) Problem("leaf ", offset, ": a key twice");
  }
  report_.keys += pairs_.size();
}

template <class C>
void Checker<C>::CheckBlock(pmem::Offset offset, const media::Block& block, const Header& header,
                            const Bounds& bounds) {
  if (!header.IsSound()) Problem("leaf ", offset, ": a damaged header");
  for (uint32_t slots = header.slots(); slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    const Pair pair = SlotPair(block, slot);
    CheckPair(offset, pair);
    if (!tree_.codec.KeyInRange(pair, bounds.low, bounds.bounded, bounds.high)) {
      Problem("leaf ", offset, " slot ", slot, ": key out of the leaf's range");
    }
    if (header.FingerprintAt(slot) != FingerprintOf(tree_.codec.HashOf(pair))) {
      Problem("leaf ", offset, " slot ", slot, ": wrong fingerprint");
    }
    pairs_.push_back(pair);
  }
}

template <class C>
void Checker<C>::CheckPair(pmem::Offset where, Pair pair) {
  if constexpr (C::kRecords) {
    if (this->CheckRecordPair(tree_.codec, tree_.pool, tree_.slab, where, pair)) {
      record_bytes_ += tree_.slab.SpaceAt(C::RecordOf(pair.value));
    }
  }
}

// Nothing leaks, and nothing has two owners.
template <class C>
void Checker<C>::CheckSpace() {
  if (tree_.pool.finding_space()) return;  // what nobody owns still counts as used
  uint64_t spare = 0;
  uint64_t waiting = 0;  // retired, not yet freed
  tree_.workers.ForEach([&](const Worker& worker) {
    spare += worker.spare_leaves.size();
    waiting += worker.retired.bytes();
  });
  if (tree_.leaves.used_units() != report_.leaves + spare) {
    Problem(tree_.leaves.used_units(), " leaves are taken, ", report_.leaves, " reached, ", spare,
            " spare");
  }
  const uint64_t used = tree_.slab.used_bytes();
  if (used == record_bytes_ + waiting) return;
  Problem(used, " bytes are taken by records, ", record_bytes_, " by those reached, ", waiting,
          " are about to be freed");
}

}  // namespace

template <class C>
CheckReport LbTree<C>::Check() {
  return Checker<C>(tree_).Run();
}

template <class C>
CheckReport LbTree<C>::CheckInPassing(CheckPause go_on) {
  return Checker<C>(tree_).RunInPassing(go_on);
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
