// The search of one leaf: the filter in DRAM, then the tags beside the slots.
//
// Thread-safe. Candidates may read a leaf that is changing: its caller validates. FindPlace is for
// the holder of the leaf's lock only.
#pragma once

#include <bit>
#include <cstdint>

#include "index/node/optimistic_section.h"
#include "index/node/prefetch.h"
#include "index/node/tag_match.h"
#include "index/sptree/locked_leaf.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class LeafSearch {
 public:
  using Key = typename C::Key;

  explicit LeafSearch(const TreeState<C>& tree) : tree_(tree) {}

  bool MayHold(const Mnode<C>& leaf, const Key& key) const {
    return !tree_.parameters.filter || leaf.filter.MayHold(key.hash);
  }
  // Of `slots` of the leaf, those that may hold the key.
  uint64_t ByTag(const media::Bnode& bnode, uint64_t slots, const Key& key) const {
    if (!tree_.parameters.tags) [[unlikely]]
      return slots;
    return slots & MatchTags<kBnodeSlots>(TagsOf(bnode), FingerprintOf(key.hash));
  }
  // Slots that may hold the key. Where most are is fetched beside the tags that tell them.
  uint64_t Candidates(const Mnode<C>& leaf, const Key& key) const {
    if (!MayHold(leaf, key)) return 0;
    if (tree_.parameters.home_lines) FetchHome(*leaf.bnode, key.hash);
    return ByTag(*leaf.bnode, leaf.bitmap, key);
  }

  // Which of the slots has the key; -1: none.
  int FindSlot(const media::Bnode& bnode, uint64_t slots, const Key& key) const {
    for (; slots != 0; slots &= slots - 1) {
      const int slot = std::countr_zero(slots);
      const Pair pair = SlotPair(bnode, static_cast<unsigned>(slot));
      if (tree_.codec.MayMatch(key, pair) && tree_.codec.Matches(key, pair)) return slot;
    }
    return -1;
  }
  // Where the buffer has the key; -1: it has not.
  int FindBuffered(const WriteBuffer& buffer, const Key& key) const {
    for (unsigned i = 0; i < buffer.pairs(); ++i) {
      const Pair pair = buffer.PairAt(i);
      if (tree_.codec.MayMatch(key, pair) && tree_.codec.Matches(key, pair)) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }
  // In the leaf and in its buffer.
  LockedLeaf<C> Locate(Mnode<C>* leaf, const Key& key) const {
    LockedLeaf<C> held{.leaf = leaf};
    if (leaf->buffered() && MayHold(*leaf, key)) {
      held.place = FindBuffered(*leaf->buffer, key);
      if (held.place >= 0) {
        const uint8_t slot = leaf->buffer->SlotAt(static_cast<unsigned>(held.place));
        held.slot = slot == WriteBuffer::kNoSlot ? -1 : slot;
        return held;
      }
    }
    held.slot = FindPlace(*leaf, key);
    return held;
  }
  int FindPlace(const Mnode<C>& leaf, const Key& key) const {
    const uint64_t slots = Candidates(leaf, key);
    return slots == 0 ? -1 : FindSlot(*leaf.bnode, slots, key);
  }

  // Fetches what a write of the key reads and stores in the leaf, which may be changing. The caller
  // locks it only then: loads after a locked instruction wait for it, those before it overlap with
  // the fence of the thread's last write.
  void FetchForWrite(const Mnode<C>& leaf, const Key& key) const {
    const OptimisticSection section;
    const media::Bnode* bnode = leaf.bnode;
    Prefetch(bnode);
    Prefetch(bnode->tags);
    const uint64_t free_slots = ~leaf.bitmap;
    if (free_slots != 0) Prefetch(&bnode->slots[tree_.SlotFor(key.hash, free_slots)]);
    FetchSlots(*bnode, Candidates(leaf, key));
  }
  static void FetchSlots(const media::Bnode& bnode, uint64_t slots) {
    for (; slots != 0; slots &= slots - 1) Prefetch(&bnode.slots[std::countr_zero(slots)]);
  }
  // Fetches the records that the search for the key reads. The leaf may be changing.
  void FetchRecords(const Mnode<C>& leaf, const Key& key) const {
    const OptimisticSection section;
    for (uint64_t slots = Candidates(leaf, key); slots != 0; slots &= slots - 1) {
      const Pair pair = SlotPair(*leaf.bnode, static_cast<unsigned>(std::countr_zero(slots)));
      if (tree_.codec.MayMatch(key, pair)) tree_.codec.PrefetchKey(pair);
    }
  }

 private:
  const TreeState<C>& tree_;
};

}  // namespace lodgekv::sptree
