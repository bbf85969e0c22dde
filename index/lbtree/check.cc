// Check: reads the whole structure, compares what the inner tree says with what the medium says,
// and counts. All leaves' locks are held, so writers wait and the counts fit together.
#include <algorithm>
#include <bit>

#include "index/lbtree/lbtree.h"
#include "index/node/leaf_chain_checker.h"

namespace lodgekv::lbtree {

template <class C>
class LbTree<C>::Checker : LeafChainChecker {
 public:
  explicit Checker(LbTree& tree) : tree_(tree) {}

  CheckReport Run() {
    tree_.locks_.LockAll();
    Follow(tree_.pool_.engine_area()[media::kFirstLeaf]);
    tree_.ForEachLeaf([&](const media::Block* leaf, const Bounds& bounds, const uint32_t*) {
      CheckLeaf(leaf, bounds);
    });
    ExpectEnd();
    // Elsewhere other threads take and retire meanwhile.
    if (tree_.medium_.tracer() != nullptr) CheckSpace();
    tree_.locks_.UnlockAll();
    report_.bytes_reachable += record_bytes_;
    return std::move(report_);
  }

 private:
  void CheckLeaf(const media::Block* leaf, const Bounds& bounds);
  void CheckBlock(pmem::Offset offset, const media::Block& block, const Header& header,
                  const Bounds& bounds);
  void CheckPair(pmem::Offset where, Pair pair);
  void CheckSpace();

  LbTree& tree_;
  uint64_t record_bytes_ = 0;
  std::vector<Pair> pairs_;  // of the leaf in hand
};

template <class C>
void LbTree<C>::Checker::CheckLeaf(const media::Block* leaf, const Bounds& bounds) {
  const pmem::Offset offset = tree_.pool_.OffsetOf(leaf);
  ++report_.leaves;
  report_.bytes_reachable += tree_.leaf_bytes();
  ExpectLeaf(offset);
  Follow(leaf[0].tail[AltOf(leaf) ? 1 : 0]);
  pairs_.clear();
  for (unsigned b = 0; b < tree_.blocks_; ++b)
    CheckBlock(offset, leaf[b], HeaderOf(leaf, b), bounds);
  std::sort(pairs_.begin(), pairs_.end(), [&](Pair a, Pair b) { return tree_.codec_.Less(a, b); });
  for (size_t i = 1; i < pairs_.size(); ++i) {
    if (tree_.codec_.SameKey(pairs_[i - 1], pairs_[i])) Problem("leaf ", offset, ": a key twice");
  }
  report_.keys += pairs_.size();
}

template <class C>
void LbTree<C>::Checker::CheckBlock(pmem::Offset offset, const media::Block& block,
                                    const Header& header, const Bounds& bounds) {
  if (!header.IsSound()) Problem("leaf ", offset, ": a damaged header");
  for (uint32_t slots = header.slots(); slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    const Pair pair = SlotPair(block, slot);
    CheckPair(offset, pair);
    if (!tree_.codec_.KeyInRange(pair, bounds.low, bounds.bounded, bounds.high)) {
      Problem("leaf ", offset, " slot ", slot, ": key out of the leaf's range");
    }
    if (header.FingerprintAt(slot) != FingerprintOf(tree_.codec_.HashOf(pair))) {
      Problem("leaf ", offset, " slot ", slot, ": wrong fingerprint");
    }
    pairs_.push_back(pair);
  }
}

template <class C>
void LbTree<C>::Checker::CheckPair(pmem::Offset where, Pair pair) {
  if constexpr (C::kRecords) {
    if (this->CheckRecordPair(tree_.codec_, tree_.pool_, tree_.slab_, where, pair)) {
      record_bytes_ += tree_.slab_.SpaceAt(C::RecordOf(pair.value));
    }
  }
}

// Nothing leaks, and nothing has two owners.
template <class C>
void LbTree<C>::Checker::CheckSpace() {
  uint64_t spare = 0;
  uint64_t waiting = 0;  // about to be given back
  tree_.workers_.ForEach([&](const Worker& worker) {
    spare += worker.spare_leaves.size();
    waiting += worker.retired.bytes();
  });
  if (tree_.leaves_.used_units() != report_.leaves + spare) {
    Problem(tree_.leaves_.used_units(), " leaves are taken, ", report_.leaves, " reached, ", spare,
            " spare");
  }
  const uint64_t used = tree_.slab_.used_bytes();
  if (used == record_bytes_ + waiting) return;
  Problem(used, " bytes are taken by records, ", record_bytes_, " by those reached, ", waiting,
          " are about to be given back");
}

template <class C>
CheckReport LbTree<C>::Check() {
  return Checker(*this).Run();
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
