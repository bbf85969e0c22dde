// Frame and commit of a change; its crash table: README.md, Change.
#include "index/sstree/leaf_writer.h"

#include <bit>
#include <cstring>

#include "index/pmem/crash_point.h"

namespace lodgekv::sstree {

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
