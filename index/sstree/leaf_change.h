// A change of one leaf until its commit: what will be valid, and what has been written for it.
// Several operations of a group may join in one. A plain value, used by the thread that holds the
// leaf's lock.
#pragma once

#include <cstdint>

#include "index/sstree/layout.h"
#include "index/sstree/leaf.h"

namespace lodgekv::sstree {

// INVARIANT: nothing is stored in a slot that is valid in `old` or `valid`.
struct LeafChange {
  Leaf* leaf = nullptr;
  media::Subnode* head = nullptr;  // that the leaf will have
  unsigned subnodes = 0;           // with that head
  bool fresh = false;   // the head is a new one: its next pointer commits (SSTree Fig. 3)
  bool staged = false;  // the head's first line has been stored to
  bool fences = false;  // a fence is needed before the commit
  bool moves = false;   // pairs of overflow subnodes to the head
  uint64_t valid = 0;   // bits of the head's word, to be committed
  uint64_t old = 0;     // bits that are valid until then, in the same order
  uint32_t lines = 0;   // stored to, besides the head's first line
  uint64_t filter = 0;
  uint8_t fingerprints[16] = {};          // of the head
  media::Subnode* last = nullptr;         // an overflow subnode that the commit leaves empty
  media::Subnode* before_last = nullptr;  // the one that refers to it
  pmem::Word* value = nullptr;            // if not null, this word changes, and nothing else
  uint64_t new_value = 0;

  uint32_t head_slots() const { return SlotsOf(valid, 0); }
  // Slots of a subnode that can be stored to.
  uint32_t FreeIn(unsigned number, uint32_t usable) const {
    return usable & ~SlotsOf(valid | old, number);
  }
  bool changes() const { return value != nullptr || valid != old; }
  // Do readers look at what the commit stores?
  bool visible() const {
    return value != nullptr || (!fresh && (valid ^ old) >> kSubnodeSlots != 0);
  }
};

}  // namespace lodgekv::sstree
