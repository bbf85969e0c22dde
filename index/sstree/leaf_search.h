// The search of one leaf: first the head, by what DRAM has of it, then the overflow subnodes, each
// by the fingerprints that its predecessor holds (delegated fingerprints, SSTree III-B).
//
// Thread-safe. Candidates may read a leaf that is changing: its caller validates. FindPlace is for
// the holder of the leaf's lock only.
#pragma once

#include <bit>
#include <cstdint>

#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/sstree/leaf_change.h"
#include "index/sstree/tree_state.h"

namespace lodgekv::sstree {

// A slot of a leaf.
struct Place {
  int bit = -1;  // of the head's word; -1: the key is not there
  media::Slot* slot = nullptr;

  bool found() const { return bit >= 0; }
  bool in_head() const { return bit < static_cast<int>(kSubnodeSlots); }
  Pair pair() const { return {slot->key.LoadRelaxed(), slot->value.LoadRelaxed()}; }
};

template <class C>
class LeafSearch {
 public:
  using Key = typename C::Key;

  explicit LeafSearch(const TreeState<C>& tree) : tree_(tree) {}

  // Slots of the head that may hold the key.
  uint32_t HeadCandidates(const Leaf& leaf, const Key& key) const {
    const uint32_t slots = leaf.place.slots();
    if (!tree_.parameters.head_fingerprints) [[unlikely]]
      return slots;
    return slots & leaf.Match(FingerprintOf(key.hash));
  }
  bool MayOverflow(const Leaf& leaf, const Key& key) const {
    return leaf.place.more() && (leaf.MayOverflow(key.hash) || !tree_.parameters.overflow_filter);
  }
  // Of `slots` of the subnode after `before`, those that may hold the key.
  uint32_t OverflowCandidates(const media::Subnode& before, uint32_t slots, const Key& key) const {
    if (slots == 0 || !tree_.parameters.delegated_fingerprints) return slots;
    const auto* tags = reinterpret_cast<const uint8_t*>(before.fingerprints);
    return slots & static_cast<uint32_t>(MatchTags<kSubnodeSlots>(tags, FingerprintOf(key.hash)));
  }

  // Fetches what a write of the key reads and stores in the leaf, which may be changing. The caller
  // locks it only then: loads after a locked instruction wait for it, those before it overlap with
  // the fence of the thread's last write.
  // `hint`: the leaf's; the block that it names is being fetched.
  void FetchForWrite(const Leaf& leaf, const Key& key, BlockHint hint = {}) const {
    const OptimisticSection section;
    const media::Subnode* head = tree_.HeadOf(leaf);
    if (hint.block() != leaf.place.head()) {
      PrefetchLines(head, sizeof(media::Subnode));
      if (tree_.parameters.head_hints) hint.Note(leaf.place.head());
    }
    if (!MayOverflow(leaf, key)) return;
    // The address need not be a subnode's: nothing there is read.
    const media::Subnode* next = tree_.NextOf(*head);
    uint32_t slots = OverflowCandidates(*head, kSubnodeMask, key);
    for (; slots != 0; slots &= slots - 1) Prefetch(&next->slots[std::countr_zero(slots)]);
  }

  // Fetches the records that the search for the key reads in the leaf as of `snapshot`.
  void FetchRecords(const Leaf& leaf, uint64_t snapshot, const Key& key) const {
    const OptimisticSection section;
    const media::Subnode* head = tree_.HeadOf(leaf);
    FetchRecordsOf(*head, HeadCandidates(leaf, key), key);
    if (!MayOverflow(leaf, key)) return;
    const media::Subnode* next = tree_.NextOf(*head);
    if (!leaf.lock.Validate(snapshot)) return;  // `next` need not be a subnode then
    FetchRecordsOf(*next, OverflowCandidates(*head, kSubnodeMask, key), key);
  }

  Place FindPlace(const Leaf& leaf, const Key& key) const {
    const uint32_t slots = HeadCandidates(leaf, key);
    if (slots != 0) {
      media::Subnode* head = tree_.HeadOf(leaf);
      const int slot = FindSlot(*head, slots, key);
      if (slot >= 0) return {slot, &head->slots[slot]};
    }
    return MayOverflow(leaf, key) ? FindInOverflow(leaf, key) : Place{};
  }
  // Of the leaf as it will be.
  media::Subnode* SubnodeOf(const LeafChange& change, unsigned number) const {
    if (number == 0) return change.head;
    // A new head does not refer to the others yet.
    media::Subnode* at = change.fresh ? tree_.HeadOf(*change.leaf) : tree_.NextOf(*change.head);
    while (--number > 0) at = tree_.NextOf(*at);
    return at;
  }
  // Which of the slots has the key; -1: none.
  int FindSlot(const media::Subnode& subnode, uint32_t slots, const Key& key) const {
    for (; slots != 0; slots &= slots - 1) {
      const int slot = std::countr_zero(slots);
      const Pair pair = SlotPair(subnode, static_cast<unsigned>(slot));
      if (tree_.codec.MayMatch(key, pair) && tree_.codec.Matches(key, pair)) return slot;
    }
    return -1;
  }

 private:
  void FetchRecordsOf(const media::Subnode& subnode, uint32_t slots, const Key& key) const {
    for (; slots != 0; slots &= slots - 1) {
      const Pair pair = SlotPair(subnode, static_cast<unsigned>(std::countr_zero(slots)));
      if (tree_.codec.MayMatch(key, pair)) tree_.codec.PrefetchKey(pair);
    }
  }
  Place FindInOverflow(const Leaf& leaf, const Key& key) const {
    media::Subnode* before = tree_.HeadOf(leaf);
    const uint64_t valid = before->word.LoadRelaxed() & media::kValidMask;
    for (unsigned i = 1; i < leaf.place.subnodes(); ++i) {
      media::Subnode* subnode = tree_.NextOf(*before);
      const int slot = FindSlot(*subnode, OverflowCandidates(*before, SlotsOf(valid, i), key), key);
      if (slot >= 0) return {slot + static_cast<int>(i * kSubnodeSlots), &subnode->slots[slot]};
      before = subnode;
    }
    return {};
  }

  const TreeState<C>& tree_;
};

}  // namespace lodgekv::sstree
