// Check: reads the whole structure, compares the leaves in DRAM with the medium, and counts. All
// leaves are locked, from left to right, so writers wait and the counts are consistent; in passing,
// each is locked while it is looked at.
#include <algorithm>
#include <bit>
#include <optional>

#include "index/node/leaf_chain_checker.h"
#include "index/sstree/leaf_walk.h"
#include "index/sstree/sstree.h"

namespace lodgekv::sstree {

namespace {

// One run of Check over all leaves. Used by one thread, concurrent with writers.
template <class C>
class Checker : LeafChainChecker {
 public:
  using Bounds = typename TreeState<C>::Bounds;

  explicit Checker(TreeState<C>& tree) : tree_(tree), walk_(tree) {}

  CheckReport Run() {
    std::vector<Leaf*> held;
    walk_.ForEach(C::TextOf(C::MinusInfinity()), /*lock=*/true,
                  [&](Leaf* leaf, const Bounds& bounds, uint64_t valid) {
                    held.push_back(leaf);
                    CheckLeaf(*leaf, bounds, valid);
                    return true;
                  });
    // Without a tracer other threads allocate and retire meanwhile.
    if (tree_.medium.tracer() != nullptr) CheckSpace();
    for (Leaf* leaf : held) leaf->lock.Unlock();
    return Report();
  }

  CheckReport RunInPassing(CheckPause go_on) {
    while (CheckSomeLeaves() && go_on()) {
    }
    return Report();
  }

 private:
  // In passing, between two pauses.
  static constexpr unsigned kLeavesAtATime = 64;

  bool CheckSomeLeaves();
  CheckReport Report() {
    report_.bytes_reachable += record_bytes_;
    return std::move(report_);
  }
  void CheckLeaf(const Leaf& leaf, const Bounds& bounds, uint64_t valid);
  void CheckSubnode(const Leaf& leaf, const Bounds& bounds, const media::Subnode* before,
                    const media::Subnode& subnode, uint32_t slots);
  void CheckEnd(const Leaf& leaf, const media::Subnode& last);
  void CheckPair(pmem::Offset where, Pair pair);
  void CheckSpace();

  TreeState<C>& tree_;
  const LeafWalk<C> walk_;
  uint64_t subnodes_ = 0;
  uint64_t record_bytes_ = 0;
  std::vector<Pair> pairs_;             // of the current leaf
  // In passing:
  std::optional<std::string> reached_;  // where the next leaf begins
  const Leaf* last_ = nullptr;          // that was looked at
};

// False: none are left.
template <class C>
bool Checker<C>::CheckSomeLeaves() {
  unsigned left = kLeavesAtATime;
  bool more = false;
  walk_.ForEach(reached_ ? *reached_ : C::TextOf(C::MinusInfinity()), /*lock=*/true,
                [&](Leaf* leaf, const Bounds& bounds, uint64_t valid) {
                  // The leaf that was looked at last may have taken over the range since. So may
                  // the next one, of which nothing was looked at.
                  const bool again =
                      leaf == last_ && C::CompareToKey(bounds.low, C::MakeKey(*reached_)) < 0;
                  if (!again) CheckLeaf(*leaf, bounds, valid);
                  last_ = leaf;
                  more = bounds.bounded;
                  if (more) reached_ = C::TextOf(bounds.high);
                  leaf->lock.Unlock();
                  return --left > 0;
                });
  return more && left == 0;
}

template <class C>
void Checker<C>::CheckLeaf(const Leaf& leaf, const Bounds& bounds, uint64_t valid) {
  ++report_.leaves;
  pairs_.clear();
  const unsigned subnodes = leaf.place.subnodes();
  subnodes_ += subnodes;
  report_.bytes_reachable += subnodes * sizeof(media::Subnode);
  if (subnodes == 0) {
    if (valid != 0) Problem("a leaf with pairs and without a head");
    return;
  }
  const media::Subnode* head = tree_.HeadOf(leaf);
  uint64_t stored;
  if (!ReadValid(head->word.Load(), &stored) || stored != valid) {
    Problem("leaf ", leaf.place.head(), ": its word does not fit its slots in DRAM");
  }
  if (subnodes < kMaxSubnodes && valid >> subnodes * kSubnodeSlots != 0) {
    Problem("leaf ", leaf.place.head(), ": slots beyond its subnodes");
  }
  const media::Subnode* before = nullptr;
  const media::Subnode* at = head;
  for (unsigned i = 0; i < subnodes; ++i) {
    CheckSubnode(leaf, bounds, before, *at, SlotsOf(valid, i));
    before = at;
    if (i + 1 == subnodes) break;
    pmem::Offset next;
    if (!ReadChecked(at->next.Load(), &next) || !tree_.subnodes.IsUnit(next)) {
      Problem("leaf ", leaf.place.head(), ": a list that ends after ", i + 1, " subnodes");
      return;
    }
    at = tree_.SubnodeAt(next);
  }
  CheckEnd(leaf, *at);
  std::sort(pairs_.begin(), pairs_.end(), [&](Pair a, Pair b) { return tree_.codec.Less(a, b); });
  for (size_t i = 1; i < pairs_.size(); ++i) {
    if (tree_.codec.SameKey(pairs_[i - 1], pairs_[i])) {
      Problem("leaf ", leaf.place.head(), ": a key twice");
    }
  }
  report_.keys += pairs_.size();
}

template <class C>
void Checker<C>::CheckEnd(const Leaf& leaf, const media::Subnode& last) {
  if (last.next.Load() == media::End()) return;
  Problem("leaf ", leaf.place.head(), ": its list does not end after its subnodes");
}

template <class C>
void Checker<C>::CheckSubnode(const Leaf& leaf, const Bounds& bounds, const media::Subnode* before,
                              const media::Subnode& subnode, uint32_t slots) {
  const pmem::Offset where = tree_.pool.OffsetOf(&subnode);
  const auto* tags = before == nullptr ? leaf.fingerprints
                                       : reinterpret_cast<const uint8_t*>(before->fingerprints);
  for (; slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    const Pair pair = SlotPair(subnode, slot);
    CheckPair(where, pair);
    if (!tree_.codec.KeyInRange(pair, bounds.low, bounds.bounded, bounds.high)) {
      Problem("subnode ", where, " slot ", slot, ": key out of the leaf's range");
    }
    const uint16_t hash = tree_.codec.HashOf(pair);
    if (tags[slot] != FingerprintOf(hash)) {
      Problem("subnode ", where, " slot ", slot, ": wrong fingerprint");
    }
    if (before != nullptr && !leaf.MayOverflow(hash)) {
      Problem("subnode ", where, " slot ", slot, ": not in the leaf's filter");
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
    spare += worker.spare.size() + worker.cut_off.size();
    waiting += worker.retired.bytes();
  });
  if (tree_.subnodes.used_units() != subnodes_ + spare) {
    Problem(tree_.subnodes.used_units(), " subnodes are taken, ", subnodes_, " reached, ", spare,
            " spare");
  }
  const uint64_t used = tree_.slab.used_bytes();
  if (used == record_bytes_ + waiting) return;
  Problem(used, " bytes are taken by records, ", record_bytes_, " by those reached, ", waiting,
          " are about to be freed");
}

}  // namespace

template <class C>
CheckReport SsTree<C>::Check() {
  return Checker<C>(tree_).Run();
}

template <class C>
CheckReport SsTree<C>::CheckInPassing(CheckPause go_on) {
  return Checker<C>(tree_).RunInPassing(go_on);
}

template class SsTree<Fixed64Codec>;
template class SsTree<BytesCodec>;

}  // namespace lodgekv::sstree
