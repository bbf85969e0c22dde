// A group may have more pairs for a leaf than two leaves hold: then it splits into several, each
// new one pointing to the next.
//
// New pairs that stay in the old leaf need slots that are free before the commit. A single drain
// halves the pairs, and commits a second time if there are too few free slots. In a group, where
// every second commit would add fences for all, fewer pairs stay.
#include "index/lodgetree/leaf_split.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lodgekv::lodgetree {

namespace {

// A leaf's content before it is written.
struct LeafImage {
  uint64_t commit;
  uint64_t watermark;
  uint64_t next[2];
  uint8_t fingerprints[32];
  uint64_t low[2];
  Pair slots[kLeafSlots];
};
static_assert(sizeof(LeafImage) == sizeof(media::Leaf));

}  // namespace

template <class C>
bool LeafSplitter<C>::Divides(const Node* node, unsigned leaf, Separator separator) {
  const bool last = leaf + 1u == node->index_count;
  return C::Compare(separator, node->LowOf(leaf)) > 0 &&
         ((last && !node->bounded) ||
          C::Compare(separator, last ? node->high : node->LowOf(leaf + 1)) < 0);
}

// Even parts, as many as LeavesFor returns; but in a group no more pairs stay than find free slots
// at once.
template <class C>
auto LeafSplitter<C>::Divide(NodeTurn<C>& turn, const LeafWork& work) -> Division {
  std::span<SplitPair> pairs(worker_.round.split_pairs);
  const unsigned parts = parts_.parameters.LeavesFor(pairs.size());
  const Division even{parts, pairs.size() / parts};
  if (!turn.of_group()) return even;
  const auto less = [&](const SplitPair& a, const SplitPair& b) {
    return parts_.codec.Less(a.pair, b.pair);
  };
  const auto border = pairs.begin() + static_cast<ptrdiff_t>(even.stay);
  std::nth_element(pairs.begin(), border, pairs.end(), less);
  const auto is_new = [](const SplitPair& origin) { return origin.slot < 0; };
  auto free_slots =
      static_cast<ptrdiff_t>(parts_.parameters.leaf_slots) - std::popcount(work.old_bits);
  if (std::count_if(pairs.begin(), border, is_new) <= free_slots) return even;
  std::sort(pairs.begin(), border, less);
  Division division{parts, 0};
  while (!is_new(pairs[division.stay]) || --free_slots >= 0) ++division.stay;
  if (division.stay == 0) return even;  // a leaf keeps at least one pair
  const size_t moved = pairs.size() - division.stay;
  if (moved <= size_t{parts_.parameters.leaf_slots} * (parts - 1)) return division;
  ++division.parts;
  return TakeFurtherLeaf(turn) ? division : even;
}

// Beyond what the round has planned: if the node has room for it, and no other operation may need
// it.
template <class C>
bool LeafSplitter<C>::TakeFurtherLeaf(NodeTurn<C>& turn) {
  Round<C>& round = worker_.round;
  const size_t planned = round.planned_leaves - round.new_leaves.size();
  const size_t waiting = worker_.todo.size() - round.planned_ops;
  if (turn.further_leaves == 0 || worker_.spares.leaves() <= planned + waiting + 1) return false;
  if (C::kRecords && worker_.spares.fences() <= planned) return false;
  --turn.further_leaves;
  ++round.planned_leaves;
  return true;
}

// Appends the pairs of the last leaf to the others, and returns them. A damaged record may have any
// key: if that would put a separator outside the leaf's range, the nearest one inside is used.
template <class C>
auto LeafSplitter<C>::UpperPart(const Node* node, unsigned leaf, std::span<SplitPair> pairs,
                                Division division, Separator* separator) -> std::span<SplitPair> {
  const auto less = [&](const SplitPair& a, const SplitPair& b) {
    return parts_.codec.Less(a.pair, b.pair);
  };
  const unsigned parts = division.parts;
  const size_t border = division.Border(pairs.size());
  std::nth_element(pairs.begin(), pairs.begin() + static_cast<ptrdiff_t>(border), pairs.end(),
                   less);
  const auto left_most = std::ranges::max_element(pairs.first(border), less);
  *separator = parts_.codec.Between(left_most->pair, pairs[border].pair, parts_.texts);
  if (!C::kRecords || Divides(node, leaf, *separator)) [[likely]]
    return pairs.subspan(border);
  std::ranges::sort(pairs, less);
  // No part may exceed a leaf.
  const size_t most = parts_.parameters.leaf_slots;
  for (size_t away = 1; away < pairs.size(); ++away) {
    for (const size_t at : {border - away, border + away}) {
      if (at - 1 >= pairs.size() - 1 || pairs.size() - at > most || at > most * (parts - 1)) {
        continue;
      }
      C::Discard(parts_.texts, *separator);
      *separator = parts_.codec.Between(pairs[at - 1].pair, pairs[at].pair, parts_.texts);
      if (Divides(node, leaf, *separator)) return pairs.subspan(at);
    }
  }
  C::Discard(parts_.texts, *separator);
  *separator = parts_.codec.Between(pairs[border - 1].pair, pairs[border].pair, parts_.texts);
  return pairs.subspan(border);
}

// The leaf's pairs and those drained to it.
template <class C>
void LeafSplitter<C>::CollectPairs(const LeafWork& work) {
  Round<C>& round = worker_.round;
  round.split_pairs.clear();
  for (uint32_t left = work.old_bits & ~work.cleared; left != 0; left &= left - 1) {
    const int slot = std::countr_zero(left);
    round.split_pairs.push_back({SlotPair(work.media, static_cast<unsigned>(slot)), slot});
  }
  for (unsigned i = 0; i < work.update_count; ++i) {
    for (SplitPair& origin : round.split_pairs) {
      if (origin.slot == work.update_slots[i]) origin.pair.value = work.update_values[i];
    }
  }
  for (unsigned i = 0; i < work.fresh_count; ++i) {
    round.split_pairs.push_back({round.fresh[work.first_fresh + i], -1});
  }
}

template <class C>
void LeafSplitter<C>::Stage(NodeTurn<C>& turn, LeafWork& work) {
  Round<C>& round = worker_.round;
  CollectPairs(work);
  work.flip = true;
  work.first_new = static_cast<unsigned>(round.new_leaves.size());
  if (!parts_.parameters.use_n_split) WriteLeafAside(work, worker_.spares.next_leaf());
  uint64_t next = work.media->next[work.use_n ? 1 : 0].LoadRelaxed();
  std::span<SplitPair> pairs(round.split_pairs);
  for (Division division = Divide(turn, work); division.parts > 1; --division.parts) {
    Separator separator;
    const std::span<SplitPair> moved = UpperPart(turn.node, work.leaf, pairs, division, &separator);
    pairs = pairs.first(pairs.size() - moved.size());
    round.right.clear();
    for (const SplitPair& origin : moved) {
      round.right.push_back(origin.pair);
      if (origin.slot >= 0) work.moved |= uint32_t{1} << origin.slot;
    }
    WriteRightLeaf(turn, work, separator, next);
    next = CheckedWord(round.new_leaves.back().offset);
  }
  work.next = next;
  work.new_count = static_cast<unsigned>(round.new_leaves.size()) - work.first_new;
  if (!parts_.medium.Canary("lodgetree.split.next_after_commit")) {
    parts_.medium.Store(work.media->next[work.use_n ? 0 : 1], work.next);
  }
  work.lines |= 1;
  work.fresh_count = 0;
  for (const SplitPair& origin : pairs) {
    if (origin.slot < 0) round.fresh[work.first_fresh + work.fresh_count++] = origin.pair;
  }
  worker_.counters.Add(WorkerCounters::kLeafSplits, work.new_count);
}

// Emulates the cost of a split with a log, where the leaf is made durable a second time before it
// changes. The space of the new leaf stands for that log.
template <class C>
void LeafSplitter<C>::WriteLeafAside(const LeafWork& work, pmem::Offset space) {
  char* aside = parts_.pool.template At<char>(space);
  parts_.medium.StoreBulk(aside, work.media, kLeafBytes);
  parts_.medium.Persist(aside, kLeafBytes);
}

template <class C>
StagedRecord LeafSplitter<C>::StageSpareFence(std::string_view text) {
  const auto [space, bytes] = worker_.spares.TakeFence();
  const StagedRecord record = StageRecordAt(parts_.pool, parts_.slab, space, text, {}, 0);
  if (parts_.slab.IsLarge(bytes) && !record.large) {
    parts_.medium.Persist(parts_.pool.template At<char>(space), record.bytes);
    parts_.slab.Commit(space);
  }
  return record;
}

// A separator too long for the fence's word is stored in a record that the leaf owns. Replay uses
// the spare space that fits its leaf: what else is free another split may need.
template <class C>
FenceWords LeafSplitter<C>::StageFence(Separator separator, bool replays) {
  const std::string_view text = C::FenceText(separator);
  if (text.empty()) return C::EncodeFence(separator, 0);
  StagedRecord record;
  if (!replays) {
    record = StageRecord(parts_.pool, parts_.slab, text, {}, 0, pmem::ReservePolicy::kUse);
  }
  if (record.offset == 0) record = StageSpareFence(text);
  FinishRecord(parts_.pool, record, 0);
  return C::EncodeFence(separator, record.offset);
}

// From the round's `right` pairs.
template <class C>
void LeafSplitter<C>::WriteRightLeaf(const NodeTurn<C>& turn, const LeafWork& work,
                                     Separator separator, uint64_t next) {
  const std::span<const Pair> pairs(worker_.round.right);
  LeafImage image;
  const auto count = static_cast<unsigned>(pairs.size());
  image.commit = CheckedWord((uint64_t{1} << count) - 1);
  image.watermark = CheckedWord(work.watermark);
  image.next[0] = next;
  image.next[1] = 0;
  std::memset(image.fingerprints, 0, sizeof(image.fingerprints));
  for (unsigned i = 0; i < count; ++i) {
    image.fingerprints[i] = FingerprintOf(parts_.codec.HashOf(pairs[i]));
    image.slots[i] = pairs[i];
  }
  const FenceWords fence = StageFence(separator, turn.replays);
  image.low[0] = fence.word;
  image.low[1] = fence.meta;
  auto& right = worker_.round.new_leaves.emplace_back();
  right.offset = worker_.spares.TakeLeaf();
  right.separator = separator;
  auto* leaf = parts_.pool.template At<media::Leaf>(right.offset);
  const size_t bytes = offsetof(LeafImage, slots) + count * sizeof(Pair);
  parts_.medium.StoreBulk(leaf, &image, bytes);
  if (!parts_.medium.Canary("lodgetree.split.leaf_not_flushed")) parts_.medium.Flush(leaf, bytes);

  std::memcpy(right.mirror.fingerprints, image.fingerprints, sizeof(right.mirror.fingerprints));
  right.mirror.bits = static_cast<uint32_t>(image.commit & media::kBitmapMask);
  if (!parts_.mirrors_records) return;
  for (unsigned i = 0; i < count; ++i) right.records.Set(i, parts_.RecordWordOf(pairs[i]));
}

template class LeafSplitter<Fixed64Codec>;
template class LeafSplitter<BytesCodec>;

}  // namespace lodgekv::lodgetree
