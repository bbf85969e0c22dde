// A change of one leaf until its commit: what will be valid, and what has been written for it.
// Several operations of a group may join in one. A plain value, used by the thread that holds the
// leaf's lock.
#pragma once

#include <bit>
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

  // Line `line` of subnode `number` has been stored to.
  void Write(unsigned number, unsigned line) {
    if (number == 0 && line == 0) {
      staged = true;
    } else {
      lines |= LeafLine(number, line);
    }
  }
  // A pair has been stored in the slot.
  void Add(unsigned number, unsigned slot) {
    valid |= uint64_t{1} << (number * kSubnodeSlots + slot);
    Write(number, LineOfSlot(slot));
  }

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

// Which pairs of the head's first line are moved out of it when another line is written anyway.
enum class Moving : uint8_t {
  kNone,
  kInLine,   // those that find room in that line
  kAnywhere  // and those for which there is a slot that is its line's only free one
};

// The slots of a subnode that such pairs move to, when `taken` has been used of its `free_slots`. A
// line with several free slots is left to a write of its own. One with a single free slot would
// take such a write, with two fences, for one pair: a pair that moves there saves its line later.
class FreeSlots {
 public:
  FreeSlots(uint32_t free_slots, unsigned taken, Moving moving) {
    if (moving == Moving::kNone) return;
    const uint32_t line = SlotsOfLine(LineOfSlot(taken));
    in_line_ = free_slots & line & ~(uint32_t{1} << taken);
    if (moving == Moving::kAnywhere) single_ = SinglesOf(free_slots & ~line);
  }

  bool empty() const { return (in_line_ | single_) == 0; }
  unsigned Take() {
    uint32_t& from = in_line_ != 0 ? in_line_ : single_;
    const auto slot = static_cast<unsigned>(std::countr_zero(from));
    from &= from - 1;
    return slot;
  }

 private:
  static uint32_t SinglesOf(uint32_t free_slots) {
    uint32_t singles = 0;
    for (unsigned line = 0; line < kSubnodeLines; ++line) {
      const uint32_t here = free_slots & SlotsOfLine(line);
      if (std::has_single_bit(here)) singles |= here;
    }
    return singles;
  }

  uint32_t in_line_ = 0;
  uint32_t single_ = 0;
};

}  // namespace lodgekv::sstree
