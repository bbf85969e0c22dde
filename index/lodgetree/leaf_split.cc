// The log-less leaf split (LodgeTree III-B): next0/next1 and use_n.
//
//  step                                         after a crash             recovery
//  1  new leaf written; next[1 - use_n] of the  old leaf whole, new leaf  mark frees the new leaf;
//     old leaf points to it; fence              unreachable               the log has the pairs
//  2  commit word: moved slots cleared and      both leaves, disjoint     nothing
//     use_n turned over, in one store; fence
//
// Steps 1 and 2 are those of the flush that found the leaf full (leaf_count_flush.cc).
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

// A leaf split takes a leaf and, for a long separator, a record. They are at hand before the first
// durable step of an operation, so that what is in the log can always be applied.
template <class C>
bool LodgeTree<C>::EnsureSpares(Worker& worker, size_t count, pmem::Reserve reserve) {
  while (worker.spare_leaves.size() < count) {
    const pmem::Offset leaf = leaves_.Allocate(reserve);
    if (leaf == 0) return false;
    worker.spare_leaves.push_back(leaf);
  }
  return !C::kRecords || EnsureSpareFences(worker, count, reserve);
}

// Each of them has room for the longest separator that a split may have to write.
template <class C>
bool LodgeTree<C>::EnsureSpareFences(Worker& worker, size_t count, pmem::Reserve reserve) {
  const uint64_t bytes = RecordBytes(longest_key_.load(std::memory_order_relaxed), 0, false);
  auto& fences = worker.spare_fences;
  if (!fences.empty() && fences.back().second < bytes) {
    for (const auto& [space, size] : fences) slab_.Free(space);
    fences.clear();
  }
  // Of very long keys a few must do: a flush that splits makes sure of one before it begins.
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  count = std::min<uint64_t>(count, std::max<uint64_t>(1, kMostBytes / bytes));
  while (fences.size() < count) {
    const pmem::Offset space = slab_.Allocate(bytes, reserve);
    if (space == 0) return false;
    fences.emplace_back(space, bytes);
  }
  return true;
}

template <class C>
void LodgeTree<C>::PrefetchSpareLeaf(const Worker& worker) const {
  if (worker.spare_leaves.empty()) return;
  const char* line = pool_.At<char>(worker.spare_leaves.back());
  for (unsigned i = 0; i < kLeafLines; ++i) __builtin_prefetch(line + i * 64, 1, 3);
}

template <class C>
void LodgeTree<C>::TrimSpares(Worker& worker) {
  constexpr size_t kKept = 8;
  for (; worker.spare_leaves.size() > kKept; worker.spare_leaves.pop_back()) {
    leaves_.Free(worker.spare_leaves.back());
  }
  for (; worker.spare_fences.size() > kKept; worker.spare_fences.pop_back()) {
    slab_.Free(worker.spare_fences.back().first);
  }
}

// A pair of the leaf and its group together.
template <class C>
struct LodgeTree<C>::Origin {
  Pair pair;
  int slot;  // in the old leaf; -1: new
};

template <class C>
bool LodgeTree<C>::Divides(const Node* node, unsigned leaf, Separator separator) {
  const bool last = leaf + 1u == node->index_count;
  return C::Compare(separator, node->LowOf(leaf)) > 0 &&
         ((last && !node->bounded) ||
          C::Compare(separator, last ? node->high : node->LowOf(leaf + 1)) < 0);
}

// Puts the upper half behind the lower one, and returns it. A damaged record may have any key:
// where that would make a border outside the leaf's range, the nearest one inside is taken.
template <class C>
auto LodgeTree<C>::UpperPart(const Node* node, unsigned leaf, std::span<Origin> pairs,
                             Separator* separator) -> std::span<Origin> {
  const auto less = [&](const Origin& a, const Origin& b) { return codec_.Less(a.pair, b.pair); };
  const size_t half = pairs.size() / 2;
  std::nth_element(pairs.begin(), pairs.begin() + static_cast<ptrdiff_t>(half), pairs.end(), less);
  const auto left_most = std::ranges::max_element(pairs.first(half), less);
  *separator = codec_.Between(left_most->pair, pairs[half].pair, dram_);
  if (!C::kRecords || Divides(node, leaf, *separator)) [[likely]]
    return pairs.subspan(half);
  std::ranges::sort(pairs, less);
  // Neither part may be more than a leaf.
  const size_t most = parameters_.leaf_slots;
  for (size_t away = 1; away < half && pairs.size() - half + away <= most; ++away) {
    for (const size_t at : {half - away, half + away}) {
      *separator = codec_.Between(pairs[at - 1].pair, pairs[at].pair, dram_);
      if (Divides(node, leaf, *separator)) return pairs.subspan(at);
    }
  }
  *separator = codec_.Between(pairs[half - 1].pair, pairs[half].pair, dram_);
  return pairs.subspan(half);
}

// Moves the upper half of the leaf's and the group's pairs to a new leaf; work.fresh keeps what
// stays.
template <class C>
void LodgeTree<C>::StageLeafSplit(Worker& worker, const Node* node, LeafWork& work) {
  Origin all[2 * kLeafSlots];
  unsigned count = 0;
  for (uint32_t left = work.old_bits & ~work.cleared; left != 0; left &= left - 1) {
    const int slot = std::countr_zero(left);
    all[count++] = {SlotPair(work.media, static_cast<unsigned>(slot)), slot};
  }
  for (unsigned i = 0; i < work.update_count; ++i) {
    for (unsigned j = 0; j < count; ++j) {
      if (all[j].slot == work.update_slots[i]) all[j].pair.value = work.update_values[i];
    }
  }
  for (unsigned i = 0; i < work.fresh_count; ++i) all[count++] = {work.fresh[i], -1};

  const std::span<Origin> moved = UpperPart(node, work.leaf, {all, count}, &work.separator);
  Pair right[2 * kLeafSlots];
  unsigned right_count = 0;
  for (const Origin& origin : moved) {
    right[right_count++] = origin.pair;
    if (origin.slot >= 0) work.moved |= uint32_t{1} << origin.slot;
  }
  work.fresh_count = 0;
  for (const Origin* origin = all; origin != moved.data(); ++origin) {
    if (origin->slot < 0) work.fresh[work.fresh_count++] = origin->pair;
  }
  work.flip = true;
  work.right = worker.spare_leaves.back();
  worker.spare_leaves.pop_back();
  if (!parameters_.use_n_split) WriteLeafAside(work);
  WriteRightLeaf(worker, work, {right, right_count});
  worker.counters.Add(WorkerCounters::kLeafSplits);
}

// What a split costs that has a log: there the leaf is durable a second time before anything in it
// changes. The space of the new leaf stands for that log's.
template <class C>
void LodgeTree<C>::WriteLeafAside(const LeafWork& work) {
  char* aside = pool_.At<char>(work.right);
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
    const auto [space, bytes] = worker.spare_fences.back();
    worker.spare_fences.pop_back();
    record = StageRecordAt(pool_, slab_, space, text, {}, 0);
    if (slab_.IsLarge(bytes) && !record.large) {
      medium_.Persist(pool_.At<char>(space), record.bytes);
      slab_.Publish(space);
    }
  }
  FinishRecord(pool_, record, 0);
  return C::EncodeFence(separator, record.offset);
}

template <class C>
void LodgeTree<C>::WriteRightLeaf(Worker& worker, LeafWork& work, std::span<const Pair> pairs) {
  LeafImage image;
  const auto count = static_cast<unsigned>(pairs.size());
  image.commit = CheckedWord((uint64_t{1} << count) - 1);
  image.watermark = CheckedWord(work.watermark);
  image.next[0] = work.media->next[work.use_n ? 1 : 0].LoadRelaxed();
  image.next[1] = 0;
  std::memset(image.fingerprints, 0, sizeof(image.fingerprints));
  for (unsigned i = 0; i < count; ++i) {
    image.fingerprints[i] = FingerprintOf(codec_.HashOf(pairs[i]));
    image.slots[i] = pairs[i];
  }
  const FenceWords fence = StageFence(worker, work.separator);
  image.low[0] = fence.word;
  image.low[1] = fence.meta;
  auto* leaf = pool_.At<media::Leaf>(work.right);
  const size_t bytes = offsetof(LeafImage, slots) + count * sizeof(Pair);
  medium_.StoreBulk(leaf, &image, bytes);
  if (!medium_.Canary("lodgetree.split.leaf_not_flushed")) medium_.Flush(leaf, bytes);
  if (!medium_.Canary("lodgetree.split.next_after_commit")) {
    medium_.Store(work.media->next[work.use_n ? 0 : 1], CheckedWord(work.right));
  }
  work.lines |= 1;

  std::memcpy(work.right_mirror.fingerprints, image.fingerprints,
              sizeof(work.right_mirror.fingerprints));
  work.right_mirror.bits = static_cast<uint32_t>(image.commit & media::kBitmapMask);
}

// Puts the new leaf into the Index Part. Buffered pairs of leaves to its right move up one target;
// those of the split leaf have been drained.
template <class C>
void LodgeTree<C>::InsertLeaf(Node* node, const LeafWork& work) const {
  const unsigned at = work.leaf + 1;
  const size_t behind = node->index_count - at;
  std::memmove(node->words + at + 1, node->words + at, behind * sizeof(uint64_t));
  std::memmove(node->values + at + 1, node->values + at, behind * sizeof(uint64_t));
  std::memmove(node->leaf_count + at + 1, node->leaf_count + at, behind);
  std::memmove(node->mirrors + at + 1, node->mirrors + at, behind * sizeof(LeafMirror));
  if constexpr (C::kRecords) {
    auto* low = node->separators.low;
    std::memmove(low + at + 1, low + at, behind * sizeof(Separator));
    low[at] = work.separator;
  }
  node->words[at] = C::WordOf(work.separator, node->prefix);
  node->values[at] = work.right;
  node->mirrors[at] = work.right_mirror;
  node->leaf_count[at] = static_cast<uint8_t>(work.right_mirror.count());
  ++node->index_count;
  for (unsigned i = node->buf_start(); i < kNodeSlots; ++i) {
    if (node->leaf_count[i] >= at) ++node->leaf_count[i];
  }
  if (!node->bounded) RebaseNode(node);
}

template class LodgeTree<Fixed64Codec>;
template class LodgeTree<BytesCodec>;

}  // namespace lodgekv::lodgetree
