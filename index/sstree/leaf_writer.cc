// Insert and commit; their crash table: README.md, Change.
#include "index/sstree/leaf_writer.h"

#include <array>
#include <bit>
#include <cstring>

#include "index/pmem/crash_point.h"

namespace lodgekv::sstree {

namespace {

// Bits that are set on average in a filter of so many pairs.
constexpr auto kUsualBits = [] {
  std::array<uint8_t, kMaxLeafSlots + 1> bits{};
  double clear = 64;
  for (size_t pairs = 0; pairs < bits.size(); ++pairs) {
    bits[pairs] = static_cast<uint8_t>(64 - clear + 0.5);
    for (int bit = 0; bit < 3; ++bit) clear *= 63.0 / 64;
  }
  return bits;
}();

// Whether the filter has far more bits than its pairs are likely to set: of pairs that have gone.
bool IsStale(const LeafChange& change) {
  constexpr int kMore = 4;
  const int pairs = std::popcount(change.valid >> kSubnodeSlots);
  return std::popcount(change.filter) > kUsualBits[static_cast<size_t>(pairs)] + kMore;
}

}  // namespace

template <class C>
void LeafWriter<C>::Begin(Leaf* leaf, LeafChange* change) const {
  change->leaf = leaf;
  change->subnodes = leaf->place.subnodes();
  change->filter = leaf->filter;
  if (change->subnodes == 0) return;
  change->head = tree_.HeadOf(*leaf);
  change->valid = change->old = change->head->word.LoadRelaxed() & media::kValidMask;
  std::memcpy(change->fingerprints, leaf->fingerprints, sizeof(leaf->fingerprints));
}

template <class C>
uint64_t LeafWriter<C>::UsableBits(unsigned subnodes) const {
  uint64_t bits = 0;
  for (unsigned i = 0; i < subnodes; ++i) {
    bits |= uint64_t{tree_.usable_slots()} << i * kSubnodeSlots;
  }
  return bits;
}

template <class C>
auto LeafWriter<C>::RoomIn(const LeafChange& change) const -> Room {
  if (change.subnodes == 0) return Room::kReplace;
  if (change.FreeIn(0, tree_.usable_slots()) != 0) return Room::kFree;
  const uint64_t used = change.valid | change.old;
  const uint64_t usable = UsableBits(tree_.parameters.fill_holes ? change.subnodes : 1);
  if ((usable & ~used) != 0) return Room::kFree;
  if (change.subnodes < tree_.parameters.most_subnodes() && !change.fresh) return Room::kReplace;
  return (usable & ~change.valid) != 0 || change.fresh ? Room::kLater : Room::kNone;
}

// A slot in the head's first line, if one is free; otherwise one in the line with the most free
// slots.
template <class C>
unsigned LeafWriter<C>::ChooseSlot(uint32_t free_slots) const {
  uint32_t best = free_slots & SlotsOfLine(0);
  if (best != 0) return static_cast<unsigned>(std::countr_zero(best));
  for (unsigned line = 1; line < kSubnodeLines; ++line) {
    const uint32_t here = free_slots & SlotsOfLine(line);
    if (std::popcount(here) > std::popcount(best)) best = here;
  }
  return static_cast<unsigned>(std::countr_zero(best));
}

template <class C>
void LeafWriter<C>::StoreInHead(LeafChange* change, unsigned slot, Pair pair, uint8_t fingerprint) {
  media::Slot& at = change->head->slots[slot];
  tree_.medium.StoreTwo(at.key, pair.key, at.value, pair.value);
  change->fingerprints[slot] = fingerprint;
  change->valid |= uint64_t{1} << slot;
  const unsigned line = LineOfSlot(slot);
  if (line == 0) {
    change->staged = true;
  } else {
    change->lines |= LeafLine(0, line);
  }
}

template <class C>
void LeafWriter<C>::AddPair(Worker& worker, LeafChange* change, Pair pair, uint16_t hash,
                            bool move) {
  change->fences |= tree_.HasRecord(pair);
  const uint32_t free_slots = change->FreeIn(0, tree_.usable_slots());
  if (free_slots == 0) {
    FillHole(change, pair, hash);
    worker.counters.Add(WorkerCounters::kFilledHoles);
    return;
  }
  const unsigned slot = ChooseSlot(free_slots);
  StoreInHead(change, slot, pair, FingerprintOf(hash));
  if (!move) return;
  const unsigned line = LineOfSlot(slot);
  MakeRoomBesideWord(worker, change, line, free_slots & SlotsOfLine(line) & ~(uint32_t{1} << slot));
}

// Moves pairs of the head's first line to slots `to` of `line`, which is written anyway, so that
// the next changes find room beside the word (entry moving of LB+-Tree 3.2).
template <class C>
void LeafWriter<C>::MakeRoomBesideWord(Worker& worker, LeafChange* change, unsigned line,
                                       uint32_t to) {
  if (line == 0 || !tree_.parameters.entry_moving) return;
  unsigned moved = 0;
  uint32_t from = change->head_slots() & SlotsOfLine(0);
  for (; from != 0 && to != 0; from &= from - 1, to &= to - 1, ++moved) {
    const auto source = static_cast<unsigned>(std::countr_zero(from));
    StoreInHead(change, static_cast<unsigned>(std::countr_zero(to)),
                SlotPair(*change->head, source), change->fingerprints[source]);
    Drop(change, source);
  }
  worker.counters.Add(WorkerCounters::kMovedEntries, moved);
}

// Stores the pair in a free slot of an overflow subnode, and its fingerprint in the subnode before
// that; the fingerprint of a slot that is not valid may change.
template <class C>
void LeafWriter<C>::FillHole(LeafChange* change, Pair pair, uint16_t hash) {
  media::Subnode* before = change->head;
  for (unsigned i = 1;; ++i) {
    media::Subnode* subnode = search_.SubnodeOf(*change, i);
    const uint32_t free_slots = change->FreeIn(i, tree_.usable_slots());
    if (free_slots == 0) {
      before = subnode;
      continue;
    }
    const unsigned slot = ChooseSlot(free_slots);
    media::Slot& at = subnode->slots[slot];
    tree_.medium.StoreTwo(at.key, pair.key, at.value, pair.value);
    pmem::Word& tags = before->fingerprints[slot / 8];
    const unsigned shift = slot % 8 * 8;
    tree_.medium.Store(tags, (tags.LoadRelaxed() & ~(uint64_t{0xff} << shift)) |
                                 uint64_t{FingerprintOf(hash)} << shift);
    if (i == 1) {
      change->staged = true;
    } else {
      change->lines |= LeafLine(i - 1, 0);
    }
    change->lines |= LeafLine(i, LineOfSlot(slot));
    change->valid |= uint64_t{1} << (i * kSubnodeSlots + slot);
    change->filter |= Leaf::FilterBits(hash);
    if (IsStale(*change)) RenewFilter(change);
    return;
  }
}

template <class C>
void LeafWriter<C>::RenewFilter(LeafChange* change) const {
  change->filter = 0;
  for (unsigned i = 1; i < change->subnodes; ++i) {
    const uint32_t slots = SlotsOf(change->valid, i);
    if (slots != 0) change->filter |= FilterOf(*search_.SubnodeOf(*change, i), slots);
  }
}

template <class C>
Place LeafWriter<C>::FindPlace(const LeafChange& change, const Key& key) const {
  media::Subnode* before = nullptr;
  for (unsigned i = 0; i < change.subnodes; ++i) {
    media::Subnode* subnode = search_.SubnodeOf(change, i);
    uint32_t slots = SlotsOf(change.valid, i);
    const auto* tags =
        i == 0 ? change.fingerprints : reinterpret_cast<const uint8_t*>(before->fingerprints);
    slots &= static_cast<uint32_t>(MatchTags<kSubnodeSlots>(tags, FingerprintOf(key.hash)));
    const int slot = search_.FindSlot(*subnode, slots, key);
    if (slot >= 0) return {slot + static_cast<int>(i * kSubnodeSlots), &subnode->slots[slot]};
    before = subnode;
  }
  return {};
}

// --- the commit ---

template <class C>
void LeafWriter<C>::Stage(LeafChange* change) {
  pmem::Medium& medium = tree_.medium;
  if (change->value != nullptr) return;
  TagLast(change);
  if (change->fresh) {
    if (medium.Canary("sstree.replace.next_first")) {
      medium.Store(change->head->next, NextOfHead(*change));
    }
    const bool later = medium.Canary("sstree.replace.two_words");
    const uint64_t valid = later ? change->head_slots() : change->valid;
    medium.Store(change->head->word, SealedWord(valid));
    change->staged = true;
  }
  if (change->staged && medium.strict_order()) {
    medium.FlushLine(change->head);
    change->fences = true;
  }
  unsigned number = 0;
  media::Subnode* at = change->head;
  for (uint32_t lines = change->lines; lines != 0; lines &= lines - 1) {
    const auto line = static_cast<unsigned>(std::countr_zero(lines));
    for (; number < line / kSubnodeLines; ++number) at = search_.SubnodeOf(*change, number + 1);
    medium.FlushLine(reinterpret_cast<char*>(at) + line % kSubnodeLines * pmem::kLineBytes);
  }
  if (change->fresh) LODGEKV_CRASH_POINT(medium, "sstree.replace.1");
  if (change->moves) LODGEKV_CRASH_POINT(medium, "sstree.move.1");
}

template <class C>
bool LeafWriter<C>::FencesFirst(const LeafChange& change) const {
  return change.fences || change.lines != 0 || change.last != nullptr;
}

// Of a head that is a new one.
template <class C>
uint64_t LeafWriter<C>::NextOfHead(const LeafChange& change) const {
  const pmem::Offset next = change.leaf->place.head();
  return next == 0 ? media::End() : CheckedWord(next);
}

template <class C>
void LeafWriter<C>::StoreWord(const LeafChange& change) {
  pmem::Word& word = change.head->word;
  const uint64_t sealed = SealedWord(change.valid);
  if (change.moves && tree_.medium.Canary("sstree.move.two_words")) {
    tree_.medium.Store(word, SealedWord(change.valid | change.old));
  }
  if (tree_.medium.Canary("sstree.change.torn_commit")) {
    tree_.medium.Store(word, (word.Load() & 0xffffffff00000000) | (sealed & 0xffffffff));
  }
  tree_.medium.StoreOrdered(word, sealed);
}

template <class C>
void LeafWriter<C>::Commit(LeafChange* change) {
  pmem::Medium& medium = tree_.medium;
  if (change->value != nullptr) {
    tree_.commits.BeginCommit(*change->leaf, *change->value);
    medium.StoreOrdered(*change->value, change->new_value);
    medium.FlushLine(change->value);
    return;
  }
  media::Subnode* head = change->head;
  if (change->fresh) {
    medium.StoreOrdered(head->next, NextOfHead(*change));
    if (medium.Canary("sstree.replace.two_words")) {
      medium.Store(head->word, SealedWord(change->valid));
    }
  } else {
    if (change->visible()) tree_.commits.BeginCommit(*change->leaf, head->word);
    StoreWord(*change);
    if (CutsWithCommit(*change)) medium.Store(head->next, media::End());
  }
  medium.FlushLine(head);
  if (change->fresh) LODGEKV_CRASH_POINT(medium, "sstree.replace.2");
  if (change->moves) LODGEKV_CRASH_POINT(medium, "sstree.move.2");
  if (change->last != nullptr) LODGEKV_CRASH_POINT(medium, "sstree.reclaim.2");
}

// The commit is durable.
template <class C>
void LeafWriter<C>::Publish(Worker& worker, LeafChange* change) {
  Leaf& leaf = *change->leaf;
  LeafCommits<Leaf>::BeginPublish(leaf);
  if (change->value == nullptr) {
    const unsigned subnodes = change->subnodes - (change->last != nullptr ? 1 : 0);
    leaf.place = LeafPlace(tree_.pool.OffsetOf(change->head), subnodes, change->head_slots());
    std::memcpy(leaf.fingerprints, change->fingerprints, sizeof(leaf.fingerprints));
    leaf.filter = subnodes > 1 ? change->filter : 0;
  }
  tree_.commits.EndPublish(leaf);
  if (change->last != nullptr) CutOffLast(worker, change);
}

template class LeafWriter<Fixed64Codec>;
template class LeafWriter<BytesCodec>;

}  // namespace lodgekv::sstree
