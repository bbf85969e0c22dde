// Recovery's nodes: the chain of leaves is found, then each task builds the nodes over a part of
// it. Afterwards only the upper bound of each task's last node is missing.
#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "index/lodgetree/recovery.h"

namespace lodgekv::lodgetree {

namespace {
constexpr size_t kLeavesPerTask = 4096;
constexpr size_t kLeavesAhead = 4;
}  // namespace

template <class C>
absl::Status LodgeTree<C>::Recovery::Links::Next(pmem::Offset offset, pmem::Offset* next) const {
  if (absl::Status status = pool.contents().EnsureVerified(offset); !status.ok()) return status;
  const auto* leaf = pool.At<media::Leaf>(offset);
  const unsigned use_n = (leaf->commit.Load() & media::kUseN) != 0 ? 1 : 0;
  if (ReadChecked(leaf->next[use_n].Load(), next)) return absl::OkStatus();
  return Damaged("a next pointer with wrong check bits in the leaf", offset);
}

// A little over half of a node's slots are filled with leaves, as in a tree that has grown.
template <class C>
absl::Status LodgeTree<C>::Recovery::BuildNodes() {
  if (first_leaf_ == 0) return Damaged("no first leaf", 0);
  if (!parts_.leaves.IsUnit(first_leaf_)) {
    return Damaged("a leaf pointer that leads to no leaf", first_leaf_);
  }
  Chain chain(pool_, parts_.leaves, {pool_});
  PhaseProgress walked(context_.progress, "leaf chain", 0);
  absl::Status status = chain.Run(first_leaf_, context_.recovery_threads, walked);
  if (!status.ok()) return status;
  report_.leaves_scanned = chain.size();
  const size_t leaves_per_node = std::max(1u, parts_.parameters.node_slots * 11 / 20);
  nodes_.resize(PartsOf(chain.size(), leaves_per_node));
  const size_t tasks = PartsOf(chain.size(), kLeavesPerTask, nodes_.size());
  PhaseProgress built(context_.progress, "leaves", chain.size());
  status = Parallel(tasks, [&](size_t task) {
    const Part nodes = Part::Of(nodes_.size(), tasks, task);
    const absl::Status result = BuildSome(chain, nodes);
    built.Add(LeavesOf(nodes.end - 1).end - LeavesOf(nodes.begin).begin);
    return result;
  });
  for (size_t task = 0; task < tasks && status.ok(); ++task) {
    const size_t end = Part::Of(nodes_.size(), tasks, task).end;
    status = EndNode(nodes_[end - 1], end < nodes_.size() ? nodes_[end] : nullptr);
  }
  if (!status.ok()) return status;
  separators_.ForEach([this](TextsOfThread& own) { parts_.dram.Take(own.arena); });
  std::vector<typename Inner::Child> children(nodes_.size());
  (void)Parallel(tasks, [&](size_t task) {
    const Part part = Part::Of(nodes_.size(), tasks, task);
    for (size_t n = part.begin; n < part.end; ++n) {
      children[n] = {nodes_[n]->low(), nodes_[n]};
      C::Keep(children[n].low);
    }
    return absl::OkStatus();
  });
  parts_.tree.Build(children, context_.recovery_threads);
  return absl::OkStatus();
}

// Builds everything but the last node's upper bound.
template <class C>
absl::Status LodgeTree<C>::Recovery::BuildSome(const Chain& chain, Part nodes) {
  const Part all{LeavesOf(nodes.begin).begin, LeavesOf(nodes.end - 1).end};
  const std::vector<pmem::Offset> leaves = chain.Leaves(all.begin, all.end);
  parts_.MakeNodes({nodes_.data() + nodes.begin, nodes.end - nodes.begin});
  for (size_t n = nodes.begin; n < nodes.end; ++n) {
    const Part part = LeavesOf(n);
    const std::span<const pmem::Offset> rest(
        leaves.begin() + static_cast<ptrdiff_t>(part.begin - all.begin), leaves.end());
    nodes_[n]->index_count = static_cast<uint8_t>(part.end - part.begin);
    absl::Status status = FillNode(nodes_[n], rest, part.begin == 0);
    if (status.ok() && n > nodes.begin) status = EndNode(nodes_[n - 1], nodes_[n]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Fills it with the first index_count of `leaves`; those after them are prefetched.
template <class C>
absl::Status LodgeTree<C>::Recovery::FillNode(Node* node, std::span<const pmem::Offset> leaves,
                                              bool first_of_all) {
  // Now: an earlier time, before any split, would be that of the pool's creation.
  node->ps_counter = node->ls_counter = parts_.Tick();
  for (unsigned at = 0; at < node->index_count; ++at) {
    if (at + kLeavesAhead < leaves.size()) {
      const char* ahead = pool_.At<char>(leaves[at + kLeavesAhead]);
      for (size_t line = 0; line < kLeafLines; ++line) Prefetch(ahead + line * pmem::kLineBytes);
    }
    Separator low;
    absl::Status status = ReadLowFence(leaves[at], first_of_all && at == 0, &low);
    if (!status.ok()) return status;
    if (at > 0 && C::Compare(node->LowOf(at - 1), low) >= 0) {
      return Damaged("a low fence that is damaged or out of order", leaves[at]);
    }
    if (!first_of_all || at > 0) low = LowOfPairs(pool_.At<media::Leaf>(leaves[at]), low);
    node->values[at] = leaves[at];
    if constexpr (C::kRecords) node->separators.low[at] = low;
    node->words[at] = C::WordOf(low, 0);
    status = FillMirror(leaves[at], &node->mirrors[at]);
    if (!status.ok()) return status;
    FillRecords(node, at);
    node->leaf_count[at] = static_cast<uint8_t>(node->mirrors[at].count());
    if (pool_.medium().Canary("lodgetree.recovery.no_fingerprints")) {
      std::fill(std::begin(node->mirrors[at].fingerprints),
                std::end(node->mirrors[at].fingerprints), uint8_t{0});
    }
  }
  return absl::OkStatus();
}

template <class C>
absl::Status LodgeTree<C>::Recovery::ReadLowFence(pmem::Offset offset, bool first_of_all,
                                                  Separator* low) {
  const auto* leaf = pool_.At<media::Leaf>(offset);
  const FenceWords fence{leaf->low[0].Load(), leaf->low[1].Load()};
  if (!parts_.codec.DecodeFence(fence, separators_.Current().texts, low) ||
      first_of_all != (fence.kind() == FenceWords::kMinusInfinity)) {
    return Damaged("a low fence that is damaged or out of order", offset);
  }
  if constexpr (C::kRecords) {
    if (fence.kind() == FenceWords::kRecord &&
        parts_.slab.Mark(fence.record()) != pmem::UnitArena::MarkResult::kMarked) {
      return Damaged("a fence record with another owner", offset);
    }
  }
  return absl::OkStatus();
}

// The canary takes the lowest slot's key for the low fence.
template <class C>
typename C::Separator LodgeTree<C>::Recovery::LowOfPairs(const media::Leaf* leaf, Separator low) {
  if (!pool_.medium().Canary("lodgetree.recovery.no_low_fence")) return low;
  const auto slots = static_cast<uint32_t>(leaf->commit.Load() & media::kBitmapMask);
  if (slots == 0) return low;
  const Pair pair = SlotPair(leaf, static_cast<unsigned>(std::countr_zero(slots)));
  return parts_.codec.Between(pair, pair, separators_.Current().texts);
}

// Called when its right neighbour is filled (null: there is none).
template <class C>
absl::Status LodgeTree<C>::Recovery::EndNode(Node* node, const Node* right) {
  if (right != nullptr) {
    if (C::Compare(node->LowOf(node->index_count - 1u), right->low()) >= 0) {
      return Damaged("a low fence that is damaged or out of order", right->values[0]);
    }
    node->bounded = true;
    node->high = right->low();
    C::Keep(node->high);
  }
  node->Rebase(parts_.codec);
  return absl::OkStatus();
}

// All leaves, in stretches that begin with the low fence of a leaf.
template <class C>
void LodgeTree<C>::Recovery::BeginSettling() {
  std::vector<pmem::Offset> leaves;
  std::vector<SettleAtTouch::Stretch> stretches;
  leaves.reserve(report_.leaves_scanned);
  for (const Node* node : nodes_) {
    for (unsigned at = 0; at < node->index_count; ++at) {
      if (leaves.size() % parts_.settling.stretch_leaves() == 0) {
        stretches.push_back({C::TextOf(node->LowOf(at)), leaves.size()});
      }
      leaves.push_back(node->values[at]);
    }
  }
  parts_.settling.Begin(std::move(leaves), std::move(stretches));
}

template <class C>
absl::Status LodgeTree<C>::Recovery::FillMirror(pmem::Offset offset, LeafMirror* mirror) {
  const auto* leaf = pool_.At<media::Leaf>(offset);
  const uint64_t commit = leaf->commit.Load();
  uint64_t value;
  if (!ReadChecked(commit, &value) || (value & ~(media::kBitmapMask | media::kUseN)) != 0) {
    return Damaged("a damaged commit word in the leaf", offset);
  }
  if (!ReadChecked(leaf->watermark.Load(), &value)) {
    return Damaged("a damaged watermark in the leaf", offset);
  }
  if ((commit & media::kBitmapMask) >> parts_.parameters.leaf_slots != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("leaf_slots is ", parts_.parameters.leaf_slots,
                     ", but a leaf of the pool has more pairs; open it with the larger value"));
  }
  for (unsigned slot = 0; slot < kLeafSlots; ++slot) {
    const uint64_t word = leaf->fingerprints[slot / 8].LoadRelaxed();
    mirror->fingerprints[slot] = static_cast<uint8_t>(word >> (8 * (slot % 8)));
  }
  mirror->bits = static_cast<uint32_t>(commit & media::kBitmapMask) |
                 ((commit & media::kUseN) != 0 ? LeafMirror::kUseN : 0);
  const absl::Status status = MarkSlots(leaf, mirror->slots());
  if (!status.ok() || pool_.was_clean() || FingerprintsFit(leaf, *mirror)) return status;
  return Damaged("a fingerprint that is not its key's in the leaf", offset);
}

// Of valid pairs.
template <class C>
void LodgeTree<C>::Recovery::FillRecords(Node* node, unsigned leaf) const {
  if (!parts_.mirrors_records) return;
  const media::Leaf* media = parts_.access.LeafAt(node, leaf);
  uint64_t words[kLeafSlots];
  for (uint32_t slots = node->mirrors[leaf].slots(); slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    words[slot] = parts_.RecordWordOf(SlotPair(media, slot));
  }
  node->SetRecords(leaf, node->mirrors[leaf].slots(), words);
}

// A pool that was closed cleanly has a checksum over its leaves instead.
template <class C>
bool LodgeTree<C>::Recovery::FingerprintsFit(const media::Leaf* leaf,
                                             const LeafMirror& mirror) const {
  for (uint32_t slots = mirror.slots(); slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    const uint16_t hash = parts_.codec.HashOf(SlotPair(leaf, slot));
    if (FingerprintOf(hash) != mirror.fingerprints[slot]) return false;
  }
  return true;
}

template <class C>
absl::Status LodgeTree<C>::Recovery::MarkSlots(const media::Leaf* leaf, uint32_t slots) {
  if constexpr (C::kRecords) {
    for (; slots != 0; slots &= slots - 1) {
      const Pair pair = SlotPair(leaf, static_cast<unsigned>(std::countr_zero(slots)));
      if (!parts_.codec.PairIsSound(pair)) {
        return Damaged("a pair whose check bits do not fit in the leaf", pool_.OffsetOf(leaf));
      }
      if (!C::IsRecord(pair.value)) continue;
      const pmem::Offset record = C::RecordOf(pair.value);
      if (parts_.slab.Mark(record) != pmem::UnitArena::MarkResult::kMarked) {
        return Damaged("a pair whose record is none or another's", pool_.OffsetOf(leaf));
      }
    }
  }
  return absl::OkStatus();
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
