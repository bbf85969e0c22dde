// The write buffer of a leaf (SPTree 4.1, 4.4), in DRAM: pairs and tombstones that the log has and
// the leaf does not have yet. A tombstone names the pair that it removes. Its memory grows with it,
// a few pairs at a time (buffer_pool.h).
//
// Invariants
//  1. Every log entry of a key in the leaf's range whose number is above the leaf's watermark is
//     here, or superseded by a newer one of its key that is. So a key that is not here may be
//     written in the leaf directly: no replay undoes that.
//  2. Of keys that the leaf lacks there are no more puts here than the leaf has free slots. So a
//     flush needs no space and cannot fail, and leaf and buffer together have at most as many keys
//     as the leaf has slots.
//  3. `slots` are where the leaf has the keys.
//  4. A leaf has a buffer only while that has pairs.
//
// Changed by the holder of the leaf's lock, between BeginPublish and EndPublish. Readers validate:
// what they read may meanwhile be another leaf's, or free, but is memory of the same kind.
#pragma once

#include <algorithm>
#include <cstdint>

#include "index/node/codec.h"

namespace lodgekv::sptree {

// Some of a buffer's pairs.
struct BufferPart {
  static constexpr unsigned kPairs = 3;

  uint64_t keys[kPairs];
  uint64_t values[kPairs];
  BufferPart* next;  // null in the last one; of those that are free, the next free one
  uint32_t logs[kPairs];
  uint8_t slots[kPairs];  // in the leaf, or kNoSlot; with kTombstone
};
static_assert(sizeof(BufferPart) == 72);

struct WriteBuffer {
  static constexpr unsigned kMostPairs = 14;  // SPTree 4.1
  static constexpr uint8_t kNoSlot = 0x7f;
  static constexpr uint8_t kTombstone = 0x80;

  BufferPart first;
  uint64_t newest;  // the largest number of a log entry that was put here
  uint8_t count;
  uint8_t inserts;   // puts of keys that the leaf lacks
  bool holds_space;  // a flush frees something: slots, or records

  // For readers, who may see any number.
  unsigned pairs() const { return std::min<unsigned>(count, kMostPairs); }
  // Of pair i, which is there. A reader in a race may get the first part.
  const BufferPart& PartOf(unsigned i) const {
    const BufferPart* part = &first;
    for (unsigned n = i / BufferPart::kPairs; n > 0; --n) {
      part = part->next;
      if (part == nullptr) return first;
    }
    return *part;
  }
  BufferPart& PartOf(unsigned i) {
    return const_cast<BufferPart&>(static_cast<const WriteBuffer&>(*this).PartOf(i));
  }
  Pair PairAt(unsigned i) const {
    const BufferPart& part = PartOf(i);
    return {part.keys[i % BufferPart::kPairs], part.values[i % BufferPart::kPairs]};
  }
  uint8_t SlotAt(unsigned i) const { return MarkedSlot(i) & static_cast<uint8_t>(~kTombstone); }
  bool IsTombstone(unsigned i) const { return (MarkedSlot(i) & kTombstone) != 0; }
  bool IsInsert(unsigned i) const { return MarkedSlot(i) == kNoSlot; }
  uint32_t LogAt(unsigned i) const { return PartOf(i).logs[i % BufferPart::kPairs]; }
  bool HasLog(uint32_t log) const {
    for (unsigned i = 0; i < pairs(); ++i) {
      if (LogAt(i) == log) return true;
    }
    return false;
  }
  // The leaf's slots whose keys are here.
  uint64_t ReplacedSlots() const {
    uint64_t replaced = 0;
    for (unsigned i = 0; i < pairs(); ++i) {
      if (SlotAt(i) < 64) replaced |= uint64_t{1} << SlotAt(i);
    }
    return replaced;
  }
  // Keys of leaf and buffer together, when the leaf has `in_leaf`.
  uint64_t KeysWith(uint64_t in_leaf) const {
    for (unsigned i = 0; i < pairs(); ++i) {
      if (IsTombstone(i)) in_leaf -= SlotAt(i) == kNoSlot ? 0 : 1;
    }
    return in_leaf + inserts;
  }

  // Whether the next pair needs another part.
  bool PartsFull() const { return count != 0 && count % BufferPart::kPairs == 0; }
  void Append(BufferPart* part) { PartOf(count - 1u).next = part; }
  // Pair i, or the next one.
  void Set(unsigned i, Pair pair, uint8_t slot, bool tombstone, uint32_t log) {
    BufferPart& part = PartOf(i);
    const unsigned at = i % BufferPart::kPairs;
    inserts = static_cast<uint8_t>(inserts - (i < count && IsInsert(i) ? 1 : 0));
    part.keys[at] = pair.key;
    part.values[at] = pair.value;
    part.logs[at] = log;
    part.slots[at] = static_cast<uint8_t>(slot | (tombstone ? kTombstone : 0));
    inserts = static_cast<uint8_t>(inserts + (IsInsert(i) ? 1 : 0));
    count = static_cast<uint8_t>(std::max<unsigned>(count, i + 1));
  }

 private:
  uint8_t MarkedSlot(unsigned i) const { return PartOf(i).slots[i % BufferPart::kPairs]; }
};
static_assert(sizeof(WriteBuffer) == 88);

}  // namespace lodgekv::sptree
