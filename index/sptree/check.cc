// Check: reads the whole structure, compares the Mnodes with the leaves on the medium, and counts.
// All leaves are locked, from left to right, so writers wait and the counts are consistent; in
// passing, each is locked while it is looked at.
#include <algorithm>
#include <bit>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "index/node/leaf_chain_checker.h"
#include "index/node/log_check.h"
#include "index/sptree/leaf_walk.h"
#include "index/sptree/sptree.h"

namespace lodgekv::sptree {

namespace {

// One run of Check over all leaves. Used by one thread, concurrent with writers.
template <class C>
class Checker : LeafChainChecker {
 public:
  using Visit = typename LeafWalk<C>::Visit;

  explicit Checker(TreeState<C>& tree) : tree_(tree), walk_(tree) {}

  CheckReport Run() {
    std::vector<Mnode<C>*> held;
    Follow(tree_.pool.engine_area()[media::kFirstLeaf]);
    const bool sound = walk_.ForEach(C::TextOf(C::MinusInfinity()), true, [&](const Visit& at) {
      held.push_back(at.leaf);
      ExpectLeaf(tree_.pool.OffsetOf(at.leaf->bnode));
      Follow(at.leaf->bnode->next);
      CheckLeaf(*at.leaf);
      return true;
    });
    if (sound) {
      ExpectEnd();
    } else {
      Problem("something is damaged in a leaf, or on the way to it");
    }
    // Without a tracer other threads allocate and retire meanwhile.
    if (tree_.medium.tracer() != nullptr) CheckSpace();
    CheckLogs();
    CheckBackup(held);
    for (Mnode<C>* leaf : held) leaf->lock.Unlock();
    CheckLogHeaders([] { return true; });
    return Report();
  }

  CheckReport RunInPassing(CheckPause go_on) {
    while (CheckSomeLeaves()) {
      if (!go_on()) return Report();
    }
    CheckLogHeaders(go_on);
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
  void CheckLeaf(const Mnode<C>& leaf);
  void CheckWords(const Mnode<C>& leaf);
  void CheckFence(const Mnode<C>& leaf);
  void CheckSlot(const Mnode<C>& leaf, unsigned slot);
  void CheckBuffer(const Mnode<C>& leaf);
  void CheckBuffered(const Mnode<C>& leaf, unsigned i);
  void CheckLogs();
  void CheckLogHeaders(CheckPause go_on) {
    CheckHeaders(tree_.log, go_on, [this](const auto&... parts) { Problem(parts...); });
  }
  void CheckOrder(const Mnode<C>& leaf);
  void CheckSpace();
  void CheckBackup(std::span<Mnode<C>* const> leaves);

  TreeState<C>& tree_;
  const LeafWalk<C> walk_;
  uint64_t record_bytes_ = 0;
  std::vector<Pair> pairs_;  // of the current leaf
  std::unordered_map<uint32_t, uint32_t> buffered_in_log_;
  std::optional<std::string> reached_;  // in passing: where the next leaf begins
};

// A leaf that has taken over the range of its right neighbour since may come twice. False: none are
// left.
template <class C>
bool Checker<C>::CheckSomeLeaves() {
  unsigned left = kLeavesAtATime;
  bool more = false;
  const bool sound = walk_.ForEach(reached_ ? *reached_ : C::TextOf(C::MinusInfinity()),
                                   /*lock=*/true, [&](const Visit& at) {
                                     CheckLeaf(*at.leaf);
                                     more = at.bounded;
                                     if (more) reached_ = C::TextOf(at.high);
                                     at.leaf->lock.Unlock();
                                     return --left > 0;
                                   });
  if (!sound) Problem("something is damaged in a leaf, or on the way to it");
  return sound && more && left == 0;
}

template <class C>
void Checker<C>::CheckLeaf(const Mnode<C>& leaf) {
  ++report_.leaves;
  report_.bytes_reachable += sizeof(media::Bnode);
  CheckWords(leaf);
  CheckFence(leaf);
  pairs_.clear();
  for (uint64_t slots = leaf.bitmap; slots != 0; slots &= slots - 1) {
    CheckSlot(leaf, static_cast<unsigned>(std::countr_zero(slots)));
  }
  if (leaf.sorted.load(std::memory_order_acquire)) CheckOrder(leaf);
  std::sort(pairs_.begin(), pairs_.end(), [&](Pair a, Pair b) { return tree_.codec.Less(a, b); });
  for (size_t i = 1; i < pairs_.size(); ++i) {
    if (tree_.codec.SameKey(pairs_[i - 1], pairs_[i])) {
      Problem("leaf ", tree_.pool.OffsetOf(leaf.bnode), ": a key twice");
    }
  }
  report_.keys += leaf.buffered() ? leaf.buffer->KeysWith(pairs_.size()) : pairs_.size();
  if (leaf.buffered()) CheckBuffer(leaf);
}

template <class C>
void Checker<C>::CheckBuffer(const Mnode<C>& leaf) {
  const pmem::Offset where = tree_.pool.OffsetOf(leaf.bnode);
  const WriteBuffer& buffer = *leaf.buffer;
  const auto free_slots = std::popcount(tree_.usable_slots() & ~leaf.bitmap);
  unsigned inserts = 0;
  for (unsigned i = 0; i < buffer.pairs(); ++i) {
    inserts += buffer.IsInsert(i) ? 1 : 0;
    CheckBuffered(leaf, i);
    for (unsigned j = 0; j < i; ++j) {
      if (tree_.codec.SameKey(buffer.PairAt(i), buffer.PairAt(j))) {
        Problem("leaf ", where, ": a key twice in the buffer");
      }
    }
  }
  if (inserts != buffer.inserts || inserts > static_cast<unsigned>(free_slots)) {
    Problem("leaf ", where, ": ", inserts, " inserts in the buffer, ", buffer.inserts,
            " counted, and ", free_slots, " free slots");
  }
  if (buffer.newest <= WatermarkOf(*leaf.bnode)) {
    Problem("leaf ", where, ": a watermark above what is in the buffer");
  }
}

// A record that the leaf has too is counted there.
template <class C>
void Checker<C>::CheckBuffered(const Mnode<C>& leaf, unsigned i) {
  const pmem::Offset where = tree_.pool.OffsetOf(leaf.bnode);
  const WriteBuffer& buffer = *leaf.buffer;
  const Pair pair = buffer.PairAt(i);
  ++buffered_in_log_[buffer.LogAt(i)];
  uint64_t slots = leaf.bitmap;
  while (slots != 0 &&
         !tree_.codec.SameKey(
             pair, SlotPair(*leaf.bnode, static_cast<unsigned>(std::countr_zero(slots))))) {
    slots &= slots - 1;
  }
  const auto slot =
      slots == 0 ? WriteBuffer::kNoSlot : static_cast<uint8_t>(std::countr_zero(slots));
  if (slot != buffer.SlotAt(i)) Problem("leaf ", where, ": a buffered pair with a wrong slot");
  if (!tree_.codec.KeyInRange(pair, leaf.low, leaf.bounded(), leaf.high)) {
    Problem("leaf ", where, ": a buffered key out of the leaf's range");
  }
  if (!leaf.filter.MayHold(tree_.codec.HashOf(pair))) {
    Problem("leaf ", where, ": a buffered key that is not in the filter");
  }
  if constexpr (C::kRecords) {
    const bool in_leaf = slots != 0 && SlotPair(*leaf.bnode, slot).value == pair.value;
    if (!in_leaf && this->CheckRecordPair(tree_.codec, tree_.pool, tree_.slab, where, pair)) {
      record_bytes_ += tree_.slab.SpaceAt(C::RecordOf(pair.value));
    }
  }
}

template <class C>
void Checker<C>::CheckLogs() {
  CheckValidEntries(tree_.log, std::move(buffered_in_log_),
                    [this](const auto&... parts) { Problem(parts...); });
}

template <class C>
void Checker<C>::CheckWords(const Mnode<C>& leaf) {
  const pmem::Offset where = tree_.pool.OffsetOf(leaf.bnode);
  if (leaf.bnode->bitmap.Load() != leaf.bitmap) {
    Problem("leaf ", where, ": its bitmap is not the one in DRAM");
  }
  if ((leaf.bitmap & ~tree_.usable_slots()) != 0) Problem("leaf ", where, ": too many slots");
  if (IsMarkedDropped(*leaf.bnode)) Problem("leaf ", where, ": marked as dropped");
  uint64_t watermark;
  if (!ReadChecked(leaf.bnode->watermark.Load(), &watermark) ||
      (watermark != 0 && watermark >= tree_.pool.PeekSequence())) {
    Problem("leaf ", where, ": watermark ", watermark, " was never handed out");
  }
  if (!leaf.bounded() && leaf.high != C::MinusInfinity()) {
    Problem("leaf ", where, ": the last one, but with a high fence that readers may believe");
  }
  const pmem::Offset right = leaf.bounded() ? tree_.pool.OffsetOf(leaf.right->bnode) : 0;
  if (leaf.bnode->next.Load() != CheckedWord(right)) {
    Problem("leaf ", where, ": next does not lead to the leaf at ", right);
  }
}

template <class C>
void Checker<C>::CheckFence(const Mnode<C>& leaf) {
  const pmem::Offset where = tree_.pool.OffsetOf(leaf.bnode);
  const FenceWords fence = FenceOf(*leaf.bnode);
  typename C::Separator low;
  if (!tree_.codec.DecodeFence(fence, tree_.texts, &low)) {
    Problem("leaf ", where, ": a damaged low fence");
    return;
  }
  if (C::Compare(low, leaf.low) != 0) Problem("leaf ", where, ": another low fence than in DRAM");
  C::Discard(tree_.texts, low);
  if (fence.kind() == FenceWords::kRecord) record_bytes_ += tree_.slab.SpaceAt(fence.record());
}

template <class C>
void Checker<C>::CheckSlot(const Mnode<C>& leaf, unsigned slot) {
  const pmem::Offset where = tree_.pool.OffsetOf(leaf.bnode);
  const Pair pair = SlotPair(*leaf.bnode, slot);
  if constexpr (C::kRecords) {
    if (this->CheckRecordPair(tree_.codec, tree_.pool, tree_.slab, where, pair)) {
      record_bytes_ += tree_.slab.SpaceAt(C::RecordOf(pair.value));
    }
  }
  if (!tree_.codec.KeyInRange(pair, leaf.low, leaf.bounded(), leaf.high)) {
    Problem("leaf ", where, " slot ", slot, ": key out of the leaf's range");
  }
  const uint16_t hash = tree_.codec.HashOf(pair);
  if (TagsOf(*leaf.bnode)[slot] != FingerprintOf(hash)) {
    Problem("leaf ", where, " slot ", slot, ": wrong tag");
  }
  if (!leaf.filter.MayHold(hash)) Problem("leaf ", where, " slot ", slot, ": not in the filter");
  pairs_.push_back(pair);
}

template <class C>
void Checker<C>::CheckOrder(const Mnode<C>& leaf) {
  for (size_t i = 1; i < pairs_.size(); ++i) {
    const Pair before = SlotPair(*leaf.bnode, leaf.seqs[i - 1]);
    if (!tree_.codec.Less(before, SlotPair(*leaf.bnode, leaf.seqs[i]))) {
      Problem("leaf ", tree_.pool.OffsetOf(leaf.bnode), ": slots out of order in DRAM");
      return;
    }
  }
}

// Each entry leads to a leaf of the tree, or to one that is kept and marked; those of the tree are
// in its order.
template <class C>
void Checker<C>::CheckBackup(std::span<Mnode<C>* const> leaves) {
  const auto held = tree_.backup.TryHold();
  if (!held.owns_lock() || tree_.rest.unfinished()) return;
  const std::vector<pmem::Offset> kept = tree_.backup.KeptLeaves();
  absl::flat_hash_map<pmem::Offset, size_t> places;
  for (const Mnode<C>* leaf : leaves) {
    places.emplace(tree_.pool.OffsetOf(leaf->bnode), places.size());
  }
  uint64_t before = 0;
  size_t place = 0;  // of the leaf that may come next
  for (size_t i = 0; i < tree_.backup.entries(); ++i) {
    TopBackup::Entry entry;
    if (!tree_.backup.Read(i, &entry) || entry.low < before) {
      Problem("backup entry ", i, ": damaged, or out of order");
      continue;
    }
    before = entry.low;
    const auto at = places.find(entry.leaf);
    if (at == places.end()) {
      const bool dropped = IsMarkedDropped(*tree_.BnodeAt(entry.leaf)) &&
                           std::find(kept.begin(), kept.end(), entry.leaf) != kept.end();
      if (!dropped) {
        Problem("backup entry ", i, ": leads to ", entry.leaf, ", which is no leaf of the tree");
      }
    } else if (at->second < place) {
      Problem("backup entry ", i, ": its leaf is not to the right of those before it");
    } else {
      place = at->second + 1;
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
    spare += worker.spare.size();
    waiting += worker.retired.bytes();
    for (const pmem::Offset record : worker.spare_fences) waiting += tree_.slab.SpaceAt(record);
  });
  const std::vector<pmem::Offset> kept = tree_.backup.KeptLeaves();
  waiting += tree_.backup.space_bytes();
  for (const pmem::Offset leaf : kept) {
    const FenceWords fence = FenceOf(*tree_.BnodeAt(leaf));
    if (fence.kind() == FenceWords::kRecord) waiting += tree_.slab.SpaceAt(fence.record());
  }
  if (tree_.bnodes.used_units() != report_.leaves + spare + kept.size()) {
    Problem(tree_.bnodes.used_units(), " leaves are taken, ", report_.leaves, " reached, ", spare,
            " spare, ", kept.size(), " kept for the backup");
  }
  const uint64_t used = tree_.slab.used_bytes();
  if (used == record_bytes_ + waiting) return;
  Problem(used, " bytes are taken by records, ", record_bytes_, " by those reached, ", waiting,
          " are about to be freed");
}

}  // namespace

template <class C>
CheckReport SpTree<C>::Check() {
  return Checker<C>(tree_).Run();
}

template <class C>
CheckReport SpTree<C>::CheckInPassing(CheckPause go_on) {
  return Checker<C>(tree_).RunInPassing(go_on);
}

template class SpTree<Fixed64Codec>;
template class SpTree<BytesCodec>;

}  // namespace lodgekv::sptree
