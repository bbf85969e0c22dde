// Combined access to a node and its leaves: a leaf's pairs are found by its mirror in the node.
//
// Thread safety: the caller holds the node's lock; LeafAddress may be called by any thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "index/lodgetree/last_level_node.h"
#include "index/lodgetree/layout.h"
#include "index/node/codec.h"
#include "index/node/prefetch.h"
#include "index/pmem/pool.h"

namespace lodgekv::lodgetree {

inline Pair SlotPair(const media::Leaf* leaf, unsigned slot) {
  return {leaf->slots[slot].key.LoadRelaxed(), leaf->slots[slot].value.LoadRelaxed()};
}

template <class C>
class LeafAccess {
 public:
  using Key = typename C::Key;
  using Node = LastLevelNode<C>;

  LeafAccess(pmem::Pool& pool, const C& codec) : pool_(pool), codec_(codec) {}

  media::Leaf* LeafAt(const Node* node, unsigned leaf) const {
    return pool_.At<media::Leaf>(node->values[leaf]);
  }
  // The same for a node that is changing: may be no leaf, only for prefetching.
  uintptr_t LeafAddress(const Node* node, unsigned leaf) const {
    return reinterpret_cast<uintptr_t>(pool_.base()) + node->values[leaf];
  }

  // Prefetches the slots that may have the key. The node may be changing.
  void FetchSlots(const Node* node, unsigned leaf, const Key& key) const {
    const uintptr_t first = LeafAddress(node, leaf) + offsetof(media::Leaf, slots);
    uint32_t slots = node->mirrors[leaf].Candidates(FingerprintOf(key.hash));
    for (; slots != 0; slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      Prefetch(reinterpret_cast<const void*>(first + slot * sizeof(media::Slot)));
    }
  }
  // Prefetches the records that FindInLeaf or FindPairInLeaf will read, by `is_it`, which tells of
  // a pair whether it may have the key.
  template <class IsIt>
  void FetchRecords(const Node* node, unsigned leaf, uint16_t hash, IsIt is_it) const;
  // The same for the pairs buffered for these leaves (a bit for each), which a drain compares.
  void FetchDrained(const Node* node, uint32_t leaves) const;
  // Returns the slot; -1: the leaf does not have the key.
  int FindInLeaf(const Node* node, unsigned leaf, const Key& key) const;
  int FindPairInLeaf(const Node* node, unsigned leaf, Pair pair) const;
  // Which of the buffered pairs that may have the key (LastLevelNode::Search) has it; -1: none.
  int BufferedIndex(const Node* node, const Key& key, uint32_t hits) const;
  // Whether the record of the buffered pair `at` has no owner any more once `value` replaces it.
  bool LosesRecord(const Node* node, unsigned at, const Key& key, uint64_t value) const;
  // Bytes of the longest key of the leaf and of the pairs buffered for it: no separator of these is
  // longer. 0: separators need no records.
  uint64_t LongestKey(const Node* node, unsigned leaf) const;
  // Live keys in the leaves and the buffer.
  int64_t KeysOf(const Node& node) const;

 private:
  pmem::Pool& pool_;
  const C& codec_;
};

template <class C>
template <class IsIt>
void LeafAccess<C>::FetchRecords(const Node* node, unsigned leaf, uint16_t hash, IsIt is_it) const {
  const media::Leaf* media = LeafAt(node, leaf);
  uint32_t slots = node->mirrors[leaf].Candidates(FingerprintOf(hash));
  for (; slots != 0; slots &= slots - 1) {
    const Pair pair = SlotPair(media, static_cast<unsigned>(std::countr_zero(slots)));
    if (is_it(pair)) codec_.PrefetchKey(pair);
  }
}

template <class C>
void LeafAccess<C>::FetchDrained(const Node* node, uint32_t leaves) const {
  for (unsigned i = node->buf_start(); i < kNodeSlots; ++i) {
    const unsigned leaf = node->leaf_count[i];
    if ((leaves >> leaf & 1) == 0) continue;
    const Pair pair = node->BufferedPair(i);
    const auto may_be = [&](Pair other) {
      if (other.key != pair.key) return false;
      codec_.PrefetchKey(pair);
      return true;
    };
    FetchRecords(node, leaf, codec_.HashOf(pair), may_be);
  }
}

template <class C>
int LeafAccess<C>::FindInLeaf(const Node* node, unsigned leaf, const Key& key) const {
  const media::Leaf* media = LeafAt(node, leaf);
  uint32_t slots = node->mirrors[leaf].Candidates(FingerprintOf(key.hash));
  for (; slots != 0; slots &= slots - 1) {
    const int slot = std::countr_zero(slots);
    const Pair pair = SlotPair(media, static_cast<unsigned>(slot));
    if (codec_.MayMatch(key, pair) && codec_.Matches(key, pair)) return slot;
  }
  return -1;
}

template <class C>
int LeafAccess<C>::FindPairInLeaf(const Node* node, unsigned leaf, Pair pair) const {
  const media::Leaf* media = LeafAt(node, leaf);
  uint32_t slots = node->mirrors[leaf].Candidates(FingerprintOf(codec_.HashOf(pair)));
  for (; slots != 0; slots &= slots - 1) {
    const int slot = std::countr_zero(slots);
    if (codec_.SameKey(SlotPair(media, static_cast<unsigned>(slot)), pair)) return slot;
  }
  return -1;
}

template <class C>
int LeafAccess<C>::BufferedIndex(const Node* node, const Key& key, uint32_t hits) const {
  for (; hits != 0; hits &= hits - 1) {
    const int i = std::countr_zero(hits);
    const Pair pair = node->BufferedPair(static_cast<unsigned>(i));
    if (codec_.MayMatch(key, pair) && codec_.Matches(key, pair)) return i;
  }
  return -1;
}

// The record may be named by the tombstone that replaces it. Or it may still belong to the leaf's
// pair, which then owns it: the victim of a tombstone, or a pair that was drained before a crash
// and replayed after it.
template <class C>
bool LeafAccess<C>::LosesRecord(const Node* node, unsigned at, const Key& key,
                                uint64_t value) const {
  if constexpr (C::kRecords) {
    const uint64_t old_value = node->values[at];
    if (old_value == value) return false;
    const int slot = FindInLeaf(node, node->leaf_count[at], key);
    const media::Leaf* leaf = LeafAt(node, node->leaf_count[at]);
    return slot < 0 || SlotPair(leaf, static_cast<unsigned>(slot)).value != old_value;
  }
  return false;
}

template <class C>
uint64_t LeafAccess<C>::LongestKey(const Node* node, unsigned leaf) const {
  uint64_t longest = 0;
  if constexpr (C::kRecords) {
    char scratch[8];
    const auto add = [&](Pair pair) {
      longest = std::max<uint64_t>(longest, codec_.KeyText(pair, scratch).size());
    };
    for (uint32_t slots = node->mirrors[leaf].slots(); slots != 0; slots &= slots - 1) {
      add(SlotPair(LeafAt(node, leaf), static_cast<unsigned>(std::countr_zero(slots))));
    }
    for (uint32_t puts = node->GroupMask(leaf) & ~node->tombstones; puts != 0; puts &= puts - 1) {
      add(node->BufferedPair(static_cast<unsigned>(std::countr_zero(puts))));
    }
  }
  return longest;
}

template <class C>
int64_t LeafAccess<C>::KeysOf(const Node& node) const {
  int64_t keys = 0;
  for (unsigned leaf = 0; leaf < node.index_count; ++leaf) keys += node.leaf_count[leaf];
  for (unsigned i = node.buf_start(); i < kNodeSlots; ++i) {
    const bool in_leaf = FindPairInLeaf(&node, node.leaf_count[i], node.BufferedPair(i)) >= 0;
    if (node.IsTombstone(i)) {
      keys -= in_leaf ? 1 : 0;
    } else {
      keys += in_leaf ? 0 : 1;
    }
  }
  return keys;
}

}  // namespace lodgekv::lodgetree
