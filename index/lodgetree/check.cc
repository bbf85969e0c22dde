// Check: reads the whole structure, compares the nodes with the medium, and counts. All nodes are
// locked, from left to right, so writers wait and the counts are consistent; in passing, each is
// locked until its right neighbour is.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "index/lodgetree/lodgetree.h"
#include "index/node/leaf_chain_checker.h"
#include "index/node/log_check.h"

namespace lodgekv::lodgetree {

template <class C>
class LodgeTree<C>::Checker : LeafChainChecker {
 public:
  explicit Checker(TreeParts<C>& parts) : parts_(parts), held_(parts) {}

  CheckReport Run() {
    LockAll();
    for (const Node* node : nodes_) CheckNode(*node);
    ExpectEnd();
    CheckCounts();
    // Without a tracer other threads retire records meanwhile.
    if (parts_.medium.tracer() != nullptr) CheckRecords();
    held_.UnlockAll();
    CheckLogHeaders([] { return true; });
    return Report();
  }

  CheckReport RunInPassing(CheckPause go_on) {
    while (CheckSomeNodes()) {
      if (!go_on()) return Report();
    }
    CheckLogHeaders(go_on);
    return Report();
  }

 private:
  // In passing, between two pauses: some milliseconds of work.
  static constexpr unsigned kNodesAtATime = 16;

  bool CheckSomeNodes();
  bool EndsAsReached(const Node& node) const {
    if (!node.bounded || !reached_->bounded) return node.bounded == reached_->bounded;
    return C::CompareToKey(node.high, C::MakeKey(reached_->high)) == 0;
  }
  CheckReport Report() {
    report_.keys = static_cast<uint64_t>(std::max<int64_t>(keys_, 0));
    report_.bytes_reachable += record_bytes_;
    return std::move(report_);
  }
  const Node* LockNext(const Key& low);
  void LockAll();
  void FollowBehind(const Node& node, unsigned leaf) {
    const media::Leaf& media = *parts_.access.LeafAt(&node, leaf);
    Follow(media.next[(media.commit.Load() & media::kUseN) != 0 ? 1 : 0]);
  }
  void CheckNode(const Node& node);
  void CheckLeaf(const Node& node, unsigned leaf);
  void CheckSlots(const Node& node, unsigned leaf, const media::Leaf& media);
  void CheckFence(const Node& node, unsigned leaf, const media::Leaf& media);
  void CheckMirrored(const Node& node, unsigned leaf, unsigned slot, Pair pair);
  void CheckPair(Pair pair, pmem::Offset where);
  void AddRecord(Pair pair) {
    if constexpr (C::kRecords) {
      if (C::IsRecord(pair.value)) record_bytes_ += parts_.slab.SpaceAt(C::RecordOf(pair.value));
    }
  }
  void CheckBuffer(const Node& node);
  void CheckCounts();
  void CheckRecords();
  void CheckLogHeaders(CheckPause go_on) {
    CheckHeaders(parts_.log, go_on, [this](const auto&... parts) { Problem(parts...); });
  }
  uint64_t BytesOf(const Superseded& commits) const;

  TreeParts<C>& parts_;
  HeldNodes<C> held_;
  std::vector<const Node*> nodes_;
  std::unordered_map<uint32_t, uint32_t> buffered_in_log_;
  int64_t keys_ = 0;
  uint64_t record_bytes_ = 0;  // reachable; each record once
  DramArena dram_;
  SeparatorTexts fences_{dram_};  // decoded
  // In passing: the separators around the last checked node.
  struct Reached {
    std::string low;
    std::string high;
    bool bounded;
  };
  std::optional<Reached> reached_;
};

// Locks the node that covers `low`, then unlocks the nodes held before.
template <class C>
auto LodgeTree<C>::Checker::LockNext(const Key& low) -> const Node* {
  const size_t before = held_.size();
  const Node* node = held_.Lock(low);
  held_.UnlockFirst(before);
  return node;
}

// Locks the next nodes in passing, continuing the chain at the last checked node. False: none are
// left.
template <class C>
bool LodgeTree<C>::Checker::CheckSomeNodes() {
  std::string low = reached_ ? reached_->low : C::TextOf(C::MinusInfinity());
  bool more = true;
  for (unsigned i = 0; more && i < kNodesAtATime; ++i) {
    const Key key = C::MakeKey(low);
    const Node* node = LockNext(key);
    if (!reached_) Follow(parts_.pool.engine_area()[media::kFirstLeaf]);
    const bool takes_up = i == 0 && reached_;
    const bool again = takes_up && EndsAsReached(*node);
    if (takes_up) TakeUpAt(node->values[0]);
    again ? FollowBehind(*node, node->index_count - 1u) : CheckNode(*node);
    more = node->GoesOnAfter(key);
    std::string high = node->bounded ? C::TextOf(node->high) : std::string();
    reached_ = {std::exchange(low, high), high, node->bounded};
  }
  if (!more) ExpectEnd();
  held_.UnlockAll();
  return more;
}

template <class C>
void LodgeTree<C>::Checker::LockAll() {
  Follow(parts_.pool.engine_area()[media::kFirstLeaf]);
  Separator low = C::MinusInfinity();
  for (bool more = true; more;) {
    const Key key = C::KeyOf(low);
    const Node* node = held_.Lock(key);
    nodes_.push_back(node);
    more = node->GoesOnAfter(key);
    if (!more && node->bounded) Problem("separators out of order: the rest is not looked at");
    low = node->high;
  }
}

template <class C>
void LodgeTree<C>::Checker::CheckNode(const Node& node) {
  if (node.index_count == 0 || unsigned{node.index_count} + node.buf_count > kNodeSlots) {
    Problem("a node with ", node.index_count, " leaves and ", node.buf_count, " buffered pairs");
    return;
  }
  for (unsigned leaf = 0; leaf < node.index_count; ++leaf) CheckLeaf(node, leaf);
  CheckBuffer(node);
}

template <class C>
void LodgeTree<C>::Checker::CheckLeaf(const Node& node, unsigned leaf) {
  const pmem::Offset offset = node.values[leaf];
  ++report_.leaves;
  report_.bytes_reachable += kLeafBytes;
  if (!ExpectLeaf(offset) && !parts_.leaves.IsUnit(offset)) return;
  const media::Leaf& media = *parts_.access.LeafAt(&node, leaf);
  const LeafMirror& mirror = node.mirrors[leaf];
  const uint64_t commit = media.commit.Load();
  FollowBehind(node, leaf);
  if (commit != mirror.CommitWord()) Problem("leaf ", offset, ": commit word and mirror differ");
  if (node.leaf_count[leaf] != mirror.count()) Problem("leaf ", offset, ": wrong leaf_count");
  uint64_t watermark;
  if (!ReadChecked(media.watermark.Load(), &watermark) || watermark >= parts_.pool.PeekSequence()) {
    Problem("leaf ", offset, ": watermark ", watermark, " was never handed out");
  }
  CheckFence(node, leaf, media);
  CheckSlots(node, leaf, media);
}

template <class C>
void LodgeTree<C>::Checker::CheckFence(const Node& node, unsigned leaf, const media::Leaf& media) {
  Separator low;
  const FenceWords fence{media.low[0].Load(), media.low[1].Load()};
  if (!parts_.codec.DecodeFence(fence, fences_, &low)) {
    Problem("leaf ", node.values[leaf], ": a damaged low fence");
  } else {
    if (C::Compare(low, node.LowOf(leaf)) != 0) {
      Problem("leaf ", node.values[leaf], ": its low fence is not the index's");
    }
    C::Discard(fences_, low);
  }
  if (fence.kind() == FenceWords::kRecord) {
    record_bytes_ += parts_.slab.SpaceAt(fence.record());
  }
}

template <class C>
void LodgeTree<C>::Checker::CheckSlots(const Node& node, unsigned leaf, const media::Leaf& media) {
  const bool last = leaf + 1u == node.index_count;
  const bool bounded = !last || node.bounded;
  const Separator high = last ? node.high : node.LowOf(leaf + 1);
  const pmem::Offset offset = node.values[leaf];
  std::vector<Pair> pairs;
  for (uint32_t rest = node.mirrors[leaf].slots(); rest != 0; rest &= rest - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(rest));
    const Pair pair = SlotPair(&media, slot);
    CheckPair(pair, offset);
    if (!parts_.codec.KeyInRange(pair, node.LowOf(leaf), bounded, high)) {
      Problem("leaf ", offset, " slot ", slot, ": key out of the leaf's range");
    }
    const uint8_t fingerprint = FingerprintOf(parts_.codec.HashOf(pair));
    const uint64_t word = media.fingerprints[slot / 8].LoadRelaxed();
    if (static_cast<uint8_t>(word >> (8 * (slot % 8))) != fingerprint ||
        node.mirrors[leaf].fingerprints[slot] != fingerprint) {
      Problem("leaf ", offset, " slot ", slot, ": wrong fingerprint");
    }
    CheckMirrored(node, leaf, slot, pair);
    pairs.push_back(pair);
  }
  std::sort(pairs.begin(), pairs.end(), [&](Pair a, Pair b) { return parts_.codec.Less(a, b); });
  for (size_t i = 1; i < pairs.size(); ++i) {
    if (parts_.codec.SameKey(pairs[i - 1], pairs[i])) Problem("leaf ", offset, ": a key twice");
  }
  keys_ += static_cast<int64_t>(pairs.size());
}

template <class C>
void LodgeTree<C>::Checker::CheckMirrored(const Node& node, unsigned leaf, unsigned slot,
                                          Pair pair) {
  const RecordMirror* mirror = node.record_mirror();
  if (mirror != nullptr && mirror->WordAt(leaf, slot) != parts_.RecordWordOf(pair)) {
    Problem("leaf ", node.values[leaf], " slot ", slot, ": its record and the mirror's differ");
  }
}

template <class C>
void LodgeTree<C>::Checker::CheckPair(Pair pair, pmem::Offset where) {
  if constexpr (C::kRecords) {
    if (this->CheckRecordPair(parts_.codec, parts_.pool, parts_.slab, where, pair)) {
      AddRecord(pair);
    }
  }
}

template <class C>
void LodgeTree<C>::Checker::CheckBuffer(const Node& node) {
  for (unsigned i = node.buf_start(); i < kNodeSlots; ++i) {
    const unsigned leaf = node.leaf_count[i];
    const Pair pair = node.BufferedPair(i);
    if (leaf >= node.index_count) {
      Problem("a buffered pair for leaf ", leaf, " of ", node.index_count);
      continue;
    }
    const bool last = leaf + 1u == node.index_count;
    if (!parts_.codec.KeyInRange(pair, node.LowOf(leaf), !last || node.bounded,
                                 last ? node.high : node.LowOf(leaf + 1))) {
      Problem("a buffered pair whose key is not its leaf's (", node.values[leaf], ")");
    }
    for (unsigned j = node.buf_start(); j < i; ++j) {
      if (parts_.codec.SameKey(pair, node.BufferedPair(j))) Problem("a key buffered twice");
    }
    ++buffered_in_log_[node.buf_ver[i]];
    const int slot = parts_.access.FindPairInLeaf(&node, leaf, pair);
    const bool in_leaf = slot >= 0;
    const uint64_t before = record_bytes_;
    if (node.IsTombstone(i)) {
      keys_ -= in_leaf ? 1 : 0;
      AddRecord(pair);
    } else {
      keys_ += in_leaf ? 0 : 1;
      CheckPair(pair, node.values[leaf]);
    }
    // A tombstone usually shares its record with the leaf, and so does a pair that was replayed
    // although it had been drained.
    const bool in_both =
        in_leaf && SlotPair(parts_.access.LeafAt(&node, leaf), static_cast<unsigned>(slot)).value ==
                       pair.value;
    if (in_both) record_bytes_ = before;
  }
}

template <class C>
void LodgeTree<C>::Checker::CheckCounts() {
  const uint32_t applied = parts_.applied.log();
  if (applied != AppendLog::kNoLog) ++buffered_in_log_[applied];
  uint64_t spare = 0;
  parts_.workers.ForEach([&](const Worker<C>& worker) {
    for (const uint32_t log : worker.drained_logs) ++buffered_in_log_[log];
    for (const Superseded* commits : {&worker.open_commits.stored, &worker.open_commits.marked}) {
      for (const uint32_t log : commits->logs) ++buffered_in_log_[log];
    }
    spare += worker.spares.leaves();
  });
  CheckValidEntries(parts_.log, std::move(buffered_in_log_),
                    [this](const auto&... parts) { Problem(parts...); });
  // What nobody owns still counts as used.
  if (parts_.pool.finding_space()) return;
  if (parts_.leaves.used_units() != report_.leaves + spare) {
    Problem(parts_.leaves.used_units(), " leaves are taken, ", report_.leaves, " reached, ", spare,
            " spare");
  }
}

// Of the records that no pair has any more.
template <class C>
uint64_t LodgeTree<C>::Checker::BytesOf(const Superseded& commits) const {
  uint64_t bytes = 0;
  if constexpr (C::kRecords) {
    for (const uint64_t value_word : commits.unlinked) {
      if (C::IsRecord(value_word)) bytes += parts_.slab.SpaceAt(C::RecordOf(value_word));
    }
  }
  return bytes;
}

// Nothing leaks, and nothing has two owners.
template <class C>
void LodgeTree<C>::Checker::CheckRecords() {
  uint64_t waiting = 0;  // spare for the next split, or retired and not yet freed
  parts_.workers.ForEach([&](const Worker<C>& worker) {
    waiting += worker.retired.bytes();
    waiting += BytesOf(worker.open_commits.stored) + BytesOf(worker.open_commits.marked);
    waiting += worker.spares.fence_bytes(parts_.slab);
  });
  if (parts_.pool.finding_space()) return;
  const uint64_t used = parts_.slab.used_bytes();
  if (used == record_bytes_ + waiting) return;
  Problem(used, " bytes are taken by records, ", record_bytes_, " by those reached, ", waiting,
          " are spare or about to be freed");
}

template <class C>
CheckReport LodgeTree<C>::Check() {
  const std::lock_guard lock(parts_.reclaim_mutex);
  return Checker(parts_).Run();
}

template <class C>
CheckReport LodgeTree<C>::CheckInPassing(CheckPause go_on) {
  return Checker(parts_).RunInPassing(go_on);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
