// Insert by entry moving (LB+-Tree 3.2, Alg. 2, LBTreeLeafInsert).
//
//  step                                          after a crash           recovery
//  1  pair, moved pairs and the fingerprints of  the old header: slots   nothing
//     word 1 in slots that do not count; where   that do not count hold
//     they lie in another line than the header,  anything
//     or a record was written, or words of a
//     line may tear: flush, fence
//  2  word 0 of the header; fence                the old one or the new  nothing
//
// With the pair in the header's own line steps 1 and 2 are one flush and one fence: of a line that
// survives in part, it is the part that was written first.
#include <bit>

#include "index/lbtree/lbtree.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::lbtree {

// False: the leaf is full.
template <class C>
bool LbTree<C>::Insert(Worker& worker, const Locked& locked, Pair pair) {
  for (unsigned b = 0; b < blocks_; ++b) {
    if (HeaderOf(locked.leaf, b).slots() == UsableSlots()) continue;
    InsertIntoBlock(worker, locked, b, pair);
    return true;
  }
  return false;
}

template <class C>
void LbTree<C>::InsertIntoBlock(Worker& worker, const Locked& locked, unsigned b, Pair pair) {
  const bool alt = AltOf(locked.leaf);
  media::Block& block = locked.leaf[b];
  media::Word* words = HeaderWords(locked.leaf, b, alt);
  const unsigned header_line = HeaderLine(b, alt);
  const Header old = LoadHeader(words);
  if (medium_.Canary("lbtree.insert.header_first")) {
    Header early = old;
    early.Set(ChooseSlot(UsableSlots() & ~old.slots(), header_line),
              FingerprintOf(codec_.HashOf(pair)));
    medium_.Store(words[0], early.words[0]);
  }
  Header dword = old;
  const unsigned line =
      StageInsert(worker, block, header_line, pair, old.slots(), /*move=*/true, &dword);
  if (line != header_line) {
    medium_.FlushLine(reinterpret_cast<const char*>(&block) + line * pmem::kLineBytes);
  }
  if (dword.words[1] != old.words[1]) medium_.Store(words[1], dword.words[1]);
  if (medium_.strict_order()) medium_.FlushLine(words);
  LODGEKV_CRASH_POINT(medium_, "lbtree.insert.1");
  if (line != header_line || medium_.strict_order() || HasRecord(pair)) medium_.Fence();
  LODGEKV_CRASH_POINT(medium_, "lbtree.insert.2");
  CommitHeader(locked, words, dword);
  LODGEKV_CRASH_POINT(medium_, "lbtree.insert.4");
  CountInsert(worker, line == header_line);
}

template <class C>
void LbTree<C>::CountInsert(Worker& worker, bool beside_header) {
  worker.counters.Add(beside_header ? WorkerCounters::kOneLineInserts
                                    : WorkerCounters::kTwoLineInserts);
}

// Stores the pair, and moves entries, in slots that do not count so far: neither in `header`, which
// is going to count, nor in `committed`, which does. Returns the line that was written.
template <class C>
unsigned LbTree<C>::StageInsert(Worker& worker, media::Block& block, unsigned header_line,
                                Pair pair, uint32_t committed, bool move, Header* header) {
  const uint32_t free_slots = UsableSlots() & ~header->slots() & ~committed;
  const unsigned slot = ChooseSlot(free_slots, header_line);
  const unsigned line = LineOfSlot(slot);
  header->Set(slot, FingerprintOf(codec_.HashOf(pair)));
  StoreSlot(block, slot, pair);
  if (line == header_line || !move) return line;
  const uint32_t to = free_slots & ~(uint32_t{1} << slot) & SlotsOfLine(line);
  worker.counters.Add(WorkerCounters::kMovedEntries, MoveEntries(block, header, header_line, to));
  return line;
}

// A slot in the header's line, if one is free; else one in the line with the most free slots, which
// takes the most entries over.
template <class C>
unsigned LbTree<C>::ChooseSlot(uint32_t free_slots, unsigned header_line) const {
  uint32_t best = free_slots & SlotsOfLine(header_line);
  if (best != 0) return static_cast<unsigned>(std::countr_zero(best));
  for (unsigned line = 0; line < kBlockLines; ++line) {
    const uint32_t here = free_slots & SlotsOfLine(line);
    if (std::popcount(here) > std::popcount(best)) best = here;
  }
  return static_cast<unsigned>(std::countr_zero(best));
}

// Moves entries of the header's line to the slots `to` of a line that is going to be written
// anyway: so the next inserts find room beside the header. Returns how many.
template <class C>
unsigned LbTree<C>::MoveEntries(media::Block& block, Header* header, unsigned header_line,
                                uint32_t to) {
  if (!parameters_.entry_moving) return 0;
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
void LbTree<C>::StoreSlot(media::Block& block, unsigned slot, Pair pair) {
  medium_.Store(block.slots[slot].key, pair.key);
  medium_.Store(block.slots[slot].value, pair.value);
}

template <class C>
void LbTree<C>::BeginCommit(const Locked& locked, const media::Word& word) const {
  if (pending_ == nullptr) {
    locked.lock->BeginPublish();
  } else {
    pending_[locks_.IndexOf(locked.leaf)].Set(word);
  }
}

// What was committed is durable.
template <class C>
void LbTree<C>::BeginPublish(const Locked& locked) const {
  if (pending_ != nullptr) locked.lock->BeginPublish();
}

template <class C>
void LbTree<C>::EndPublish(const Locked& locked) const {
  if (pending_ != nullptr) pending_[locks_.IndexOf(locked.leaf)].Clear();
  locked.lock->EndPublish();
}

// The NAW: everything that `header` says counts from here on.
template <class C>
void LbTree<C>::CommitHeader(const Locked& locked, media::Word* words, const Header& header) {
  BeginCommit(locked, words[0]);
  const uint64_t old = words[0].LoadRelaxed();
  if (medium_.Canary("lbtree.insert.two_words")) {
    medium_.Store(words[0], old | header.words[0]);  // what was moved counts in both places
  }
  if (medium_.Canary("lbtree.insert.torn_commit")) {
    medium_.Store(words[0], (old & ~uint64_t{0xff}) | (header.words[0] & 0xff));
  }
  medium_.Store(words[0], header.words[0]);
  medium_.FlushLine(words);
  LODGEKV_CRASH_POINT(medium_, "lbtree.insert.3");
  medium_.Fence();
  BeginPublish(locked);
  EndPublish(locked);
}

template class LbTree<Fixed64Codec>;
template class LbTree<BytesCodec>;

}  // namespace lodgekv::lbtree
