// The log-less leaf split (LodgeTree III-B): next0/next1 and use_n.
//
//  step                                         after a crash             recovery
//  1  new leaf written; next[1 - use_n] of the  old leaf whole, new leaf  mark frees the new leaf;
//     old leaf points to it; fence              unreachable               the log has the pairs
//  2  commit word: moved slots cleared and      both leaves, disjoint     nothing
//     use_n turned over, in one store; fence
//
// Steps 1 and 2 are those of the flush that found the leaf full (leaf_count_flush.cc). A group may
// have more pairs for a leaf than two leaves hold: then it splits into several, each new one
// pointing to the next, and the one commit word makes all of them count.
//
// What stays in the old leaf and is new there needs slots that are free before the commit. A lone
// flush halves the pairs, and commits a second time where there are too few. In a group, where
// every second commit would add fences to all, fewer pairs stay.
#include <algorithm>
#include <bit>
#include <cstring>

#include "index/lodgetree/lodgetree.h"

namespace lodgekv::lodgetree {

namespace {

// What a leaf looks like before it is written.
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

// Into how many leaves so many pairs go. Two leaves are filled to the last slot before there are
// three: a lone operation never has pairs for more. Then they are filled as far as t_split says,
// but far enough for a node of a single leaf to come by with one new leaf for each operation of a
// group.
template <class C>
unsigned LodgeTree<C>::LeavesFor(size_t pairs) const {
  const unsigned slots = parameters_.leaf_slots;
  if (pairs <= parameters_.t_split) return 1;
  if (pairs <= 2 * slots) return 2;
  const unsigned fill = std::max(parameters_.t_split, (2 * slots + 3) / 3);
  return static_cast<unsigned>((pairs + fill - 1) / fill);
}

template <class C>
bool LodgeTree<C>::Divides(const Node* node, unsigned leaf, Separator separator) {
  const bool last = leaf + 1u == node->index_count;
  return C::Compare(separator, node->LowOf(leaf)) > 0 &&
         ((last && !node->bounded) ||
          C::Compare(separator, last ? node->high : node->LowOf(leaf + 1)) < 0);
}

// Even parts, as many as LeavesFor says; but in a group no more pairs stay than find their slots at
// once.
template <class C>
auto LodgeTree<C>::Divide(Worker& worker, NodeTurn& turn, const LeafWork& work) -> Division {
  std::span<Origin> pairs(worker.round.origins);
  const unsigned parts = LeavesFor(pairs.size());
  const Division even{parts, pairs.size() / parts};
  if (!turn.of_group()) return even;
  const auto less = [&](const Origin& a, const Origin& b) { return codec_.Less(a.pair, b.pair); };
  const auto border = pairs.begin() + static_cast<ptrdiff_t>(even.stay);
  std::nth_element(pairs.begin(), border, pairs.end(), less);
  const auto is_new = [](const Origin& origin) { return origin.slot < 0; };
  auto free_slots = static_cast<ptrdiff_t>(parameters_.leaf_slots) - std::popcount(work.old_bits);
  if (std::count_if(pairs.begin(), border, is_new) <= free_slots) return even;
  std::sort(pairs.begin(), border, less);
  Division division{parts, 0};
  while (!is_new(pairs[division.stay]) || --free_slots >= 0) ++division.stay;
  if (division.stay == 0) return even;  // a leaf keeps one pair at least
  const size_t moved = pairs.size() - division.stay;
  if (moved <= size_t{parameters_.leaf_slots} * (parts - 1)) return division;
  ++division.parts;
  return TakeFurtherLeaf(worker, turn) ? division : even;
}

// Beyond what the round has planned: if the node has room for it, and nobody else comes to need it.
template <class C>
bool LodgeTree<C>::TakeFurtherLeaf(Worker& worker, NodeTurn& turn) {
  Round& round = worker.round;
  const size_t planned = round.planned_leaves - round.new_leaves.size();
  const size_t waiting = worker.order.size() - round.planned_ops;
  if (turn.further_leaves == 0 || worker.spares.leaves() <= planned + waiting + 1) return false;
  if (C::kRecords && worker.spares.fences() <= planned) return false;
  --turn.further_leaves;
  ++round.planned_leaves;
  return true;
}

// Puts the pairs of the last leaf behind the others, and returns them. A damaged record may have
// any key: where that would make a border outside the leaf's range, the nearest one inside is
// taken.
template <class C>
auto LodgeTree<C>::UpperPart(const Node* node, unsigned leaf, std::span<Origin> pairs,
                             Division division, Separator* separator) -> std::span<Origin> {
  const auto less = [&](const Origin& a, const Origin& b) { return codec_.Less(a.pair, b.pair); };
  const unsigned parts = division.parts;
  const size_t border = division.Border(pairs.size());
  std::nth_element(pairs.begin(), pairs.begin() + static_cast<ptrdiff_t>(border), pairs.end(),
                   less);
  const auto left_most = std::ranges::max_element(pairs.first(border), less);
  *separator = codec_.Between(left_most->pair, pairs[border].pair, texts_);
  if (!C::kRecords || Divides(node, leaf, *separator)) [[likely]]
    return pairs.subspan(border);
  std::ranges::sort(pairs, less);
  // No part may be more than a leaf.
  const size_t most = parameters_.leaf_slots;
  for (size_t away = 1; away < pairs.size(); ++away) {
    for (const size_t at : {border - away, border + away}) {
      if (at - 1 >= pairs.size() - 1 || pairs.size() - at > most || at > most * (parts - 1)) {
        continue;
      }
      C::Discard(texts_, *separator);
      *separator = codec_.Between(pairs[at - 1].pair, pairs[at].pair, texts_);
      if (Divides(node, leaf, *separator)) return pairs.subspan(at);
    }
  }
  C::Discard(texts_, *separator);
  *separator = codec_.Between(pairs[border - 1].pair, pairs[border].pair, texts_);
  return pairs.subspan(border);
}

// The leaf's pairs and those that go there.
template <class C>
void LodgeTree<C>::CollectOrigins(Round& round, const LeafWork& work) const {
  round.origins.clear();
  for (uint32_t left = work.old_bits & ~work.cleared; left != 0; left &= left - 1) {
    const int slot = std::countr_zero(left);
    round.origins.push_back({SlotPair(work.media, static_cast<unsigned>(slot)), slot});
  }
  for (unsigned i = 0; i < work.update_count; ++i) {
    for (Origin& origin : round.origins) {
      if (origin.slot == work.update_slots[i]) origin.pair.value = work.update_values[i];
    }
  }
  for (unsigned i = 0; i < work.fresh_count; ++i) {
    round.origins.push_back({round.fresh[work.first_fresh + i], -1});
  }
}

// Moves the upper part of the leaf's and the group's pairs to new leaves, the last one first; of
// the fresh pairs remain those that stay.
template <class C>
void LodgeTree<C>::StageLeafSplit(Worker& worker, NodeTurn& turn, LeafWork& work) {
  Round& round = worker.round;
  CollectOrigins(round, work);
  work.flip = true;
  work.first_new = static_cast<unsigned>(round.new_leaves.size());
  if (!parameters_.use_n_split) WriteLeafAside(work, worker.spares.next_leaf());
  uint64_t next = work.media->next[work.use_n ? 1 : 0].LoadRelaxed();
  std::span<Origin> pairs(round.origins);
  for (Division division = Divide(worker, turn, work); division.parts > 1; --division.parts) {
    Separator separator;
    const std::span<Origin> moved = UpperPart(turn.node, work.leaf, pairs, division, &separator);
    pairs = pairs.first(pairs.size() - moved.size());
    round.right.clear();
    for (const Origin& origin : moved) {
      round.right.push_back(origin.pair);
      if (origin.slot >= 0) work.moved |= uint32_t{1} << origin.slot;
    }
    WriteRightLeaf(worker, work, separator, next);
    next = CheckedWord(round.new_leaves.back().offset);
  }
  work.next = next;
  work.new_count = static_cast<unsigned>(round.new_leaves.size()) - work.first_new;
  if (!medium_.Canary("lodgetree.split.next_after_commit")) {
    medium_.Store(work.media->next[work.use_n ? 0 : 1], work.next);
  }
  work.lines |= 1;
  work.fresh_count = 0;
  for (const Origin& origin : pairs) {
    if (origin.slot < 0) round.fresh[work.first_fresh + work.fresh_count++] = origin.pair;
  }
  worker.counters.Add(WorkerCounters::kLeafSplits, work.new_count);
}

// What a split costs that has a log: there the leaf is durable a second time before anything in it
// changes. The space of the new leaf stands for that log's.
template <class C>
void LodgeTree<C>::WriteLeafAside(const LeafWork& work, pmem::Offset space) {
  char* aside = pool_.At<char>(space);
  medium_.StoreBulk(aside, work.media, kLeafBytes);
  medium_.Persist(aside, kLeafBytes);
}

// A separator too long for the fence's word goes to a record that the leaf owns.
template <class C>
FenceWords LodgeTree<C>::StageFence(Worker& worker, Separator separator) {
  const std::string_view text = C::FenceText(separator);
  if (text.empty()) return C::EncodeFence(separator, 0);
  StagedRecord record = StageRecord(pool_, slab_, text, {}, 0, pmem::Reserve::kUse);
  if (record.offset == 0) {
    const auto [space, bytes] = worker.spares.TakeFence();
    record = StageRecordAt(pool_, slab_, space, text, {}, 0);
    if (slab_.IsLarge(bytes) && !record.large) {
      medium_.Persist(pool_.At<char>(space), record.bytes);
      slab_.Publish(space);
    }
  }
  FinishRecord(pool_, record, 0);
  return C::EncodeFence(separator, record.offset);
}

// Of the round's `right` pairs.
template <class C>
void LodgeTree<C>::WriteRightLeaf(Worker& worker, const LeafWork& work, Separator separator,
                                  uint64_t next) {
  const std::span<const Pair> pairs(worker.round.right);
  LeafImage image;
  const auto count = static_cast<unsigned>(pairs.size());
  image.commit = CheckedWord((uint64_t{1} << count) - 1);
  image.watermark = CheckedWord(work.watermark);
  image.next[0] = next;
  image.next[1] = 0;
  std::memset(image.fingerprints, 0, sizeof(image.fingerprints));
  for (unsigned i = 0; i < count; ++i) {
    image.fingerprints[i] = FingerprintOf(codec_.HashOf(pairs[i]));
    image.slots[i] = pairs[i];
  }
  const FenceWords fence = StageFence(worker, separator);
  image.low[0] = fence.word;
  image.low[1] = fence.meta;
  NewLeaf& right = worker.round.new_leaves.emplace_back();
  right.offset = worker.spares.TakeLeaf();
  right.separator = separator;
  auto* leaf = pool_.At<media::Leaf>(right.offset);
  const size_t bytes = offsetof(LeafImage, slots) + count * sizeof(Pair);
  medium_.StoreBulk(leaf, &image, bytes);
  if (!medium_.Canary("lodgetree.split.leaf_not_flushed")) medium_.Flush(leaf, bytes);

  std::memcpy(right.mirror.fingerprints, image.fingerprints, sizeof(right.mirror.fingerprints));
  right.mirror.bits = static_cast<uint32_t>(image.commit & media::kBitmapMask);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
