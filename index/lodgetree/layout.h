// LodgeTree on the medium. docs/media_format.md draws these structs byte by byte; change them
// together and raise kMediaVersion.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "index/node/checked_word.h"
#include "index/node/slots_by_line.h"
#include "index/pmem/medium.h"

namespace lodgekv::lodgetree {

inline constexpr uint32_t kMediaVersion = 2;
inline constexpr unsigned kLeafBytes = 512;
inline constexpr unsigned kLeafSlots = 27;  // LodgeTree IV-A
// Of a last-level internal node, index and buffer together.
inline constexpr unsigned kNodeSlots = 29;

namespace media {

using pmem::Word;

// Commit word of a leaf, a checked word (node/checked_word.h): bit i of the low 27 says that slot i
// counts; bit 51 is use_n.
inline constexpr uint64_t kBitmapMask = (uint64_t{1} << kLeafSlots) - 1;
inline constexpr uint64_t kUseN = uint64_t{1} << 51;

struct Slot {
  Word key;
  Word value;
};

// Invariants
//  1. commit is the only word that makes a slot or a next pointer count; it changes by one store.
//  2. Every pair of this leaf's range with a sequence number <= watermark is in the leaf or dead;
//     pairs above it are also in the log.
//  3. Keys of counted slots lie in [low fence, low fence of next[use_n]).
//  4. The line of the commit word holds all that changes with it: watermark, next and fingerprints.
struct Leaf {
  Word commit;
  Word watermark;        // largest sequence number drained into this leaf; a checked word
  Word next[2];          // next[use_n] is the right sibling, 0: none; checked words
  Word fingerprints[4];  // one byte a slot, low byte first; five bytes unused (zero)
  Word low[2];           // low fence, node/separator.h; fixed for the leaf's life
  Slot slots[kLeafSlots];
};
static_assert(sizeof(Leaf) == kLeafBytes);
static_assert(offsetof(Leaf, fingerprints) == 32);
static_assert(offsetof(Leaf, low) == 64);
static_assert(offsetof(Leaf, slots) == 80);

// The pool's engine area: checked words (node/checked_word.h).
enum EngineWord : unsigned {
  kFirstLeaf = 0,   // offset of the leftmost leaf; it is never unlinked
  kLogEntries = 1,  // L of this pool's logs
  kLongestKey = 2,  // bytes of the longest key ever put: no separator is longer
  // Every log entry with a number below it was fenced, or was dropped for good by a recovery. No
  // record was ever given back whose entry has a number from here on (codecs with records).
  kFencedBelow = 3,
};

inline uint64_t WatermarkOf(const Leaf* leaf) { return leaf->watermark.Load() & kCheckedMask; }

}  // namespace media

// The line of a leaf in which slot s begins, and the slots that begin in a line.
constexpr unsigned LineOfSlot(unsigned slot) {
  return (offsetof(media::Leaf, slots) + sizeof(media::Slot) * slot) / pmem::kLineBytes;
}
inline constexpr unsigned kLeafLines = kLeafBytes / pmem::kLineBytes;
inline constexpr auto kSlotsOfLine = SlotsByLine<kLeafLines>(kLeafSlots, LineOfSlot);
constexpr uint32_t SlotsOfLine(unsigned line) { return kSlotsOfLine[line]; }

// Where `need` new pairs touch the fewest lines: in the fullest line that can take them all,
// otherwise in the emptiest. There is a free slot.
inline unsigned LineForPairs(uint32_t free_slots, size_t need) {
  static_assert(LineOfSlot(2) == 1 && LineOfSlot(3) == 2 && LineOfSlot(kLeafSlots - 1) == 7);
  constexpr uint32_t kEach = 0x11111111;  // four bits for a line, the first for line 1
  constexpr unsigned kMost = 4;           // slots of a line
  const uint32_t slots = free_slots << 1;
  const uint32_t twos = slots - (slots >> 1 & 5 * kEach);
  const uint32_t rooms = (twos & 3 * kEach) + (twos >> 2 & 3 * kEach);
  // The lines with room for at least `count` pairs, by their highest bits.
  const auto with_room = [&](unsigned count) { return (rooms + (8 - count) * kEach) & 8 * kEach; };
  const auto all = static_cast<unsigned>(std::min<size_t>(need, kMost));
  uint32_t lines = 0;
  for (unsigned count = all; count <= kMost && lines == 0; ++count) {
    lines = with_room(count) & ~with_room(count + 1);
  }
  for (unsigned count = all; count > 0 && lines == 0; --count) lines = with_room(count);
  return 1 + static_cast<unsigned>(std::countr_zero(lines)) / 4;
}

}  // namespace lodgekv::lodgetree
