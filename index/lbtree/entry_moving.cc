// Insert by entry moving (LB+-Tree 3.2, Alg. 2, LBTreeLeafInsert); its crash table: README.md,
// Insert.
#include <bit>

#include "index/lbtree/leaf_writer.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

// Flat: calls and what they pass would make the path longer. The first block, of most leaves the
// only one, apart: what depends on the block is a constant there.
template <class C>
[[gnu::flatten]] bool LeafWriter<C>::Insert(Worker& worker, const LockedLeaf& locked,
                                            const NewPair& added) {
  if (HeaderOf(locked.leaf, 0).slots() == tree_.usable_slots) [[unlikely]]
    return InsertIntoFurther(worker, locked, added);
  InsertIntoBlock(worker, locked, 0, added);
  return true;
}

template <class C>
bool LeafWriter<C>::InsertIntoFurther(Worker& worker, const LockedLeaf& locked,
                                      const NewPair& added) {
  for (unsigned b = 1; b < tree_.blocks; ++b) {
    if (HeaderOf(locked.leaf, b).slots() == tree_.usable_slots) continue;
    InsertIntoBlock(worker, locked, b, added);
    return true;
  }
  return false;
}

template <class C>
void LeafWriter<C>::InsertIntoBlock(Worker& worker, const LockedLeaf& locked, unsigned b,
                                    const NewPair& added) {
  const bool alt = AltOfBlock(locked.leaf, b);
  pmem::Medium& medium = tree_.medium;
  media::Block& block = locked.leaf[b];
  media::Word* words = HeaderWords(locked.leaf, b, alt);
  const unsigned header_line = HeaderLine(b, alt);
  const Header old = LoadHeader(words);
  if (medium.Canary("lbtree.insert.header_first")) {
    Header early = old;
    early.Set(ChooseSlot(tree_.usable_slots & ~old.slots(), header_line), added.fingerprint);
    medium.Store(words[0], early.words[0]);
  }
  Header dword = old;
  const unsigned line =
      StageInsert(worker, block, header_line, added, old.slots(), /*move=*/true, &dword);
  if (line != header_line) {
    medium.FlushLine(reinterpret_cast<const char*>(&block) + line * pmem::kLineBytes);
  }
  if (dword.words[1] != old.words[1]) medium.Store(words[1], dword.words[1]);
  if (medium.strict_order()) medium.FlushLine(words);
  LODGEKV_CRASH_POINT(medium, "lbtree.insert.1");
  if (line != header_line || medium.strict_order() || tree_.HasRecord(added.pair))
    medium.OrderStores();
  LODGEKV_CRASH_POINT(medium, "lbtree.insert.2");
  CommitHeader(locked, words, dword);
  LODGEKV_CRASH_POINT(medium, "lbtree.insert.4");
  CountInsert(worker, line == header_line);
}

template <class C>
void LeafWriter<C>::CountInsert(Worker& worker, bool beside_header) {
  worker.counters.Add(beside_header ? WorkerCounters::kOneLineInserts
                                    : WorkerCounters::kTwoLineInserts);
}

// Stores the pair, and moves entries, in slots that are neither in the bitmap of `header`, which
// will be committed, nor in `committed`, the current one. Returns the line that was written.
template <class C>
unsigned LeafWriter<C>::StageInsert(Worker& worker, media::Block& block, unsigned header_line,
                                    const NewPair& added, uint32_t committed, bool move,
                                    Header* header) {
  const uint32_t free_slots = tree_.usable_slots & ~header->slots() & ~committed;
  const unsigned slot = ChooseSlot(free_slots, header_line);
  const unsigned line = LineOfSlot(slot);
  header->Set(slot, added.fingerprint);
  StoreSlot(block, slot, added.pair);
  if (line == header_line || !move) return line;
  const uint32_t to = free_slots & ~(uint32_t{1} << slot) & SlotsOfLine(line);
  worker.counters.Add(WorkerCounters::kMovedEntries, MoveEntries(block, header, header_line, to));
  return line;
}

// A slot in the header's line, if one is free; otherwise one in the line with the most free slots,
// which can take the most entries.
template <class C>
unsigned LeafWriter<C>::ChooseSlot(uint32_t free_slots, unsigned header_line) const {
  uint32_t best = free_slots & SlotsOfLine(header_line);
  if (best != 0) return static_cast<unsigned>(std::countr_zero(best));
  for (unsigned line = 0; line < kBlockLines; ++line) {
    const uint32_t here = free_slots & SlotsOfLine(line);
    best = std::popcount(here) > std::popcount(best) ? here : best;
  }
  return static_cast<unsigned>(std::countr_zero(best));
}

// Moves entries of the header's line to the slots `to` of a line that will be written anyway, so
// that the next inserts find room beside the header. Returns how many.
template <class C>
unsigned LeafWriter<C>::MoveEntries(media::Block& block, Header* header, unsigned header_line,
                                    uint32_t to) {
  if (!tree_.parameters.entry_moving) return 0;
  unsigned moved = 0;
  uint32_t from = header->slots() & SlotsOfLine(header_line);
  for (; from != 0 && to != 0; from &= from - 1, to &= to - 1, ++moved) {
    const auto source = static_cast<unsigned>(std::countr_zero(from));
    const auto target = static_cast<unsigned>(std::countr_zero(to));
    StoreSlot(block, target, SlotPair(block, source));
    header->Set(target, header->FingerprintAt(source));
    header->Clear(uint32_t{1} << source);
  }
  return moved;
}

template <class C>
void LeafWriter<C>::StoreSlot(media::Block& block, unsigned slot, Pair pair) {
  media::Slot& at = block.slots[slot];
  tree_.medium.StoreTwo(at.key, pair.key, at.value, pair.value);
}

// The NAW: commits the bitmap of `header`.
template <class C>
void LeafWriter<C>::CommitHeader(const LockedLeaf& locked, media::Word* words,
                                 const Header& header) {
  pmem::Medium& medium = tree_.medium;
  tree_.locks.BeginCommit(*locked.lock, words[0]);
  const uint64_t old = words[0].LoadRelaxed();
  if (medium.Canary("lbtree.insert.two_words")) {
    medium.Store(words[0], old | header.words[0]);  // moved entries are valid in both places
  }
  if (medium.Canary("lbtree.insert.torn_commit")) {
    medium.Store(words[0], (old & ~uint64_t{0xff}) | (header.words[0] & 0xff));
  }
  medium.PersistOrdered(words[0], header.words[0],
                        [&] { LODGEKV_CRASH_POINT(medium, "lbtree.insert.3"); });
  tree_.locks.EndCommit(*locked.lock);
}

template class LeafWriter<Fixed64Codec>;
template class LeafWriter<BytesCodec>;

}  // namespace lodgekv::lbtree
