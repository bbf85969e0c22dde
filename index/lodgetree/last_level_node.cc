#include "index/lodgetree/last_level_node.h"

namespace lodgekv::lodgetree {

// Chooses a new prefix for the node and recomputes its words.
template <class C>
void LastLevelNode<C>::Rebase(const C& codec) {
  if constexpr (C::kRecords) {
    const Separator last = bounded ? high : LowOf(index_count - 1u);
    prefix = static_cast<uint32_t>(CommonPrefix(low()->view(), last->view()));
    for (unsigned i = 0; i < index_count; ++i) words[i] = C::WordOf(LowOf(i), prefix);
    for (unsigned i = buf_start(); i < kNodeSlots; ++i) {
      words[i] = codec.WordOf(BufferedPair(i), prefix);
    }
  }
}

// Buffered pairs of leaves to its right move up one target; those of the split leaf have been
// drained.
template <class C>
void LastLevelNode<C>::InsertLeaf(unsigned at, const NewLeaf& leaf, const C& codec) {
  const size_t behind = index_count - at;
  std::memmove(words + at + 1, words + at, behind * sizeof(uint64_t));
  std::memmove(values + at + 1, values + at, behind * sizeof(uint64_t));
  std::memmove(leaf_count + at + 1, leaf_count + at, behind);
  std::memmove(mirrors + at + 1, mirrors + at, behind * sizeof(LeafMirror));
  if (RecordMirror* mirror = record_mirror()) {
    std::memmove(mirror->rows + at + 1, mirror->rows + at, behind * sizeof(RecordRow));
    mirror->rows[at] = leaf.records;
  }
  if constexpr (C::kRecords) {
    auto* lows = separators.low;
    std::memmove(lows + at + 1, lows + at, behind * sizeof(Separator));
    lows[at] = leaf.separator;
  }
  words[at] = C::WordOf(leaf.separator, prefix);
  values[at] = leaf.offset;
  mirrors[at] = leaf.mirror;
  leaf_count[at] = static_cast<uint8_t>(leaf.mirror.count());
  ++index_count;
  for (unsigned i = buf_start(); i < kNodeSlots; ++i) {
    if (leaf_count[i] >= at) ++leaf_count[i];
  }
  if (!bounded) Rebase(codec);
}

// Buffered pairs of leaves to its right move down one target.
template <class C>
void LastLevelNode<C>::RemoveLeaf(unsigned leaf, const C& codec) {
  const size_t behind = index_count - leaf - 1u;
  std::memmove(words + leaf, words + leaf + 1, behind * sizeof(uint64_t));
  std::memmove(values + leaf, values + leaf + 1, behind * sizeof(uint64_t));
  std::memmove(leaf_count + leaf, leaf_count + leaf + 1, behind);
  std::memmove(mirrors + leaf, mirrors + leaf + 1, behind * sizeof(LeafMirror));
  if (RecordMirror* mirror = record_mirror()) {
    std::memmove(mirror->rows + leaf, mirror->rows + leaf + 1, behind * sizeof(RecordRow));
  }
  if constexpr (C::kRecords) {
    auto* lows = separators.low;
    std::memmove(lows + leaf, lows + leaf + 1, behind * sizeof(Separator));
  }
  --index_count;
  for (unsigned i = buf_start(); i < kNodeSlots; ++i) {
    if (leaf_count[i] > leaf) --leaf_count[i];
  }
  if (!bounded) Rebase(codec);
}

template <class C>
void LastLevelNode<C>::DropDrained(uint32_t drained) {
  unsigned to = kNodeSlots;
  uint32_t left_tombstones = 0;
  for (uint32_t left = BufferMask() & ~drained; left != 0;) {
    const unsigned from = 31 - static_cast<unsigned>(std::countl_zero(left));
    left &= ~(uint32_t{1} << from);
    --to;
    left_tombstones |= (tombstones >> from & 1) << to;
    if (from == to) continue;
    words[to] = words[from];
    values[to] = values[from];
    leaf_count[to] = leaf_count[from];
    buf_ver[to] = buf_ver[from];
    if constexpr (C::kRecords) separators.key_words[to] = separators.key_words[from];
  }
  buf_count = static_cast<uint8_t>(kNodeSlots - to);
  tombstones = left_tombstones;
}

template <class C>
void LastLevelNode<C>::AddPart(const LastLevelNode& whole, unsigned first, unsigned last) {
  const unsigned leaves = last - first;
  const unsigned behind = index_count;
  std::memcpy(words + behind, whole.words + first, leaves * sizeof(uint64_t));
  std::memcpy(values + behind, whole.values + first, leaves * sizeof(uint64_t));
  std::memcpy(leaf_count + behind, whole.leaf_count + first, leaves);
  std::memcpy(mirrors + behind, whole.mirrors + first, leaves * sizeof(LeafMirror));
  // (A copy of this node has the same ones.)
  if (RecordMirror* mirror = record_mirror()) {
    std::memmove(mirror->rows + behind, whole.record_mirror()->rows + first,
                 leaves * sizeof(RecordRow));
  }
  if constexpr (C::kRecords) {
    std::memcpy(separators.low + behind, whole.separators.low + first, leaves * sizeof(Separator));
  }
  index_count = static_cast<uint8_t>(behind + leaves);
  for (unsigned from = kNodeSlots; from-- > whole.buf_start();) {
    const unsigned target = whole.leaf_count[from];
    if (target < first || target >= last) continue;
    const unsigned to = buf_start() - 1;
    words[to] = whole.words[from];
    values[to] = whole.values[from];
    leaf_count[to] = static_cast<uint8_t>(behind + target - first);
    buf_ver[to] = whole.buf_ver[from];
    tombstones |= (whole.tombstones >> from & 1) << to;
    if constexpr (C::kRecords) separators.key_words[to] = whole.separators.key_words[from];
    ++buf_count;
  }
}

template <class C>
void LastLevelNode<C>::BecomePart(const LastLevelNode& whole, unsigned first, unsigned last,
                                  const C& codec) {
  index_count = 0;
  buf_count = 0;
  tombstones = 0;
  bounded = whole.bounded || last < whole.index_count;
  high = last < whole.index_count ? whole.LowOf(last) : whole.high;
  if (last < whole.index_count) C::Keep(high);
  sparse = whole.sparse;
  commits = whole.commits;
  AddPart(whole, first, last);
  Rebase(codec);
}

template struct LastLevelNode<Fixed64Codec>;
template struct LastLevelNode<BytesCodec>;

}  // namespace lodgekv::lodgetree
