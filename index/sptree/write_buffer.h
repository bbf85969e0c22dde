// The write buffer of a leaf (SPTree 4.1, 4.4), in DRAM: pairs and tombstones that the log has and
// the leaf does not have yet. A tombstone names the pair that it removes.
//
// Invariants
//  1. Every log entry of a key in the leaf's range whose number is above the leaf's watermark is
//     here, or superseded by a newer one of its key that is. So a key that is not here may be
//     written in the leaf directly: no replay undoes that.
//  2. Of keys that the leaf lacks there are no more puts here than the leaf has free slots. So a
//     flush needs no space and cannot fail, and leaf and buffer together have at most as many keys
//     as the leaf has slots.
//  3. `slots` are where the leaf has the keys.
//
// Changed by the holder of the leaf's lock, between BeginPublish and EndPublish. Readers validate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "index/node/codec.h"

namespace lodgekv::sptree {

struct WriteBuffer {
  static constexpr unsigned kMostPairs = 14;  // SPTree 4.1
  static constexpr uint8_t kNoSlot = 0xff;

  uint64_t keys[kMostPairs];
  uint64_t values[kMostPairs];
  uint64_t newest;  // the largest number of a log entry that was put here since the last flush
  uint32_t logs[kMostPairs];
  uint16_t tombstones;  // one bit each
  uint8_t slots[kMostPairs];
  uint8_t count;
  uint8_t inserts;   // puts of keys that the leaf lacks
  bool holds_space;  // a flush frees something: slots, or records

  // For readers, who may see any number.
  unsigned pairs() const { return std::min<unsigned>(count, kMostPairs); }
  Pair PairAt(unsigned i) const { return {keys[i], values[i]}; }
  bool IsTombstone(unsigned i) const { return (tombstones >> i & 1) != 0; }
  bool IsInsert(unsigned i) const { return slots[i] == kNoSlot && !IsTombstone(i); }
  // The leaf's slots whose keys are here.
  uint64_t ReplacedSlots() const {
    uint64_t replaced = 0;
    for (unsigned i = 0; i < pairs(); ++i) {
      if (slots[i] < 64) replaced |= uint64_t{1} << slots[i];
    }
    return replaced;
  }
  // Keys of leaf and buffer together, when the leaf has `in_leaf`.
  uint64_t KeysWith(uint64_t in_leaf) const {
    for (unsigned i = 0; i < pairs(); ++i) {
      if (IsTombstone(i)) in_leaf -= slots[i] == kNoSlot ? 0 : 1;
    }
    return in_leaf + inserts;
  }

  void Set(unsigned i, Pair pair, bool tombstone, uint32_t log) {
    inserts = static_cast<uint8_t>(inserts - (i < count && IsInsert(i) ? 1 : 0));
    keys[i] = pair.key;
    values[i] = pair.value;
    logs[i] = log;
    tombstones = static_cast<uint16_t>((tombstones & ~(1u << i)) | unsigned{tombstone} << i);
    inserts = static_cast<uint8_t>(inserts + (IsInsert(i) ? 1 : 0));
    count = static_cast<uint8_t>(std::max<unsigned>(count, i + 1));
  }
  void Clear() {
    count = inserts = tombstones = 0;
    holds_space = false;
  }
};
static_assert(sizeof(WriteBuffer) == 312);

}  // namespace lodgekv::sptree
