// LB+-Tree on the medium. docs/media_format.md draws these structs byte by byte; change them
// together and raise kMediaVersion.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "index/node/batch_intent.h"
#include "index/node/checked_word.h"
#include "index/node/slots_by_line.h"
#include "index/pmem/medium.h"

namespace lodgekv::lbtree {

inline constexpr uint32_t kMediaVersion = 1;
inline constexpr unsigned kBlockSlots = 14;  // LB+-Tree 3.1
inline constexpr unsigned kMaxBlocks = 4;    // m of section 3.4
inline constexpr unsigned kMaxLeafSlots = kMaxBlocks * kBlockSlots;
inline constexpr unsigned kLeafPositions = 64;

namespace media {

using pmem::Word;

struct Slot {
  Word key;
  Word value;
};

// A header, front or back (LB+-Tree Fig. 4 and 7), low bits first:
//   word 0   bitmap:14 | parity:1 | alt:1 | fingerprints of slots 0..5, a byte each
//   word 1   fingerprints of slots 6..13
// The parity bit makes the number of set bits in word 0 even; it takes the place of the paper's
// lock bit (locks are in DRAM here). alt is used in the first block only, and zero elsewhere.
inline constexpr uint64_t kBitmapMask = (uint64_t{1} << kBlockSlots) - 1;
inline constexpr uint64_t kParity = uint64_t{1} << 14;
inline constexpr uint64_t kAlt = uint64_t{1} << 15;
inline constexpr unsigned kFirstFingerprintByte = 2;

// A block of 256 bytes. A leaf is m consecutive blocks; m is the same throughout a pool.
//
// Invariants
//  1. Only word 0 of a block's active header makes its slots valid. Word 0 of the first block's
//     header, by alt, also selects the sibling word and the active headers. Each changes by one
//     store.
//  2. The active header of the first block is `header`. In the others it is `header` while the
//     first block's alt is 0, and `tail` while it is 1.
//  3. The fingerprint of a valid slot is its key's.
//  4. Keys of a leaf are distinct, and below those of its right sibling.
struct Block {
  Word header[2];
  Slot slots[kBlockSlots];
  // First block: the two sibling words, checked words (node/checked_word.h); sibling[alt] refers to
  // the right sibling, 0: none. Other blocks: the alternative header.
  Word tail[2];
};
static_assert(sizeof(Block) == pmem::kBlockBytes);
static_assert(offsetof(Block, slots) == 16 && offsetof(Block, tail) == 240);

// The pool's engine area.
enum EngineWord : unsigned {
  kFirstLeaf = 0,  // offset of the leftmost leaf, a checked word; it is never unlinked
  kBlocks = 1,     // m, a checked word
  kIntents = 2,    // roots of batches in progress (node/batch_intent.h)
  // Earlier versions stored positions of leaves here (LB+-Tree 4.2), for a recovery that used any
  // leaf as a hint. No longer read or written.
  kPositions = kIntents + BatchIntents::kRoots,
  kEngineWords = kPositions + kLeafPositions
};

}  // namespace media

// The line of a block that holds the slot; a header is in the first or the last line.
constexpr unsigned LineOfSlot(unsigned slot) {
  return (offsetof(media::Block, slots) + sizeof(media::Slot) * slot) / pmem::kLineBytes;
}
inline constexpr unsigned kBlockLines = pmem::kBlockBytes / pmem::kLineBytes;
inline constexpr auto kSlotsOfLine = SlotsByLine<kBlockLines>(kBlockSlots, LineOfSlot);
constexpr uint32_t SlotsOfLine(unsigned line) { return kSlotsOfLine[line]; }
// A set of lines of a leaf: bit b * kBlockLines + i is line i of block b.
constexpr uint32_t LeafLine(unsigned block, unsigned line) {
  return uint32_t{1} << (block * kBlockLines + line);
}
static_assert(SlotsOfLine(0) == 0x7 && SlotsOfLine(3) == 0x3800);

// A header in DRAM: the `dword` of LB+-Tree Alg. 2. All changes are made here first, and then
// stored word by word.
struct Header {
  uint64_t words[2];

  uint32_t slots() const { return static_cast<uint32_t>(words[0] & media::kBitmapMask); }
  bool alt() const { return (words[0] & media::kAlt) != 0; }
  bool IsSound() const { return std::popcount(words[0]) % 2 == 0; }
  uint8_t FingerprintAt(unsigned slot) const {
    const unsigned byte = slot + media::kFirstFingerprintByte;
    return static_cast<uint8_t>((byte < 8 ? words[0] : words[1]) >> (8 * (byte % 8)));
  }

  // Without a branch, and without an index, which would keep the words in memory.
  void Set(unsigned slot, uint8_t fingerprint) {
    const unsigned byte = slot + media::kFirstFingerprintByte;
    const uint64_t mask = uint64_t{0xff} << (8 * (byte % 8));
    const uint64_t bits = uint64_t{fingerprint} << (8 * (byte % 8));
    const uint64_t first = (words[0] & ~mask) | bits;
    const uint64_t second = (words[1] & ~mask) | bits;
    words[0] = (byte < 8 ? first : words[0]) | uint64_t{1} << slot;
    words[1] = byte < 8 ? words[1] : second;
    Seal();
  }
  void Clear(uint32_t slots_to_clear) {
    words[0] &= ~uint64_t{slots_to_clear};
    Seal();
  }
  void FlipAlt() {
    words[0] ^= media::kAlt;
    Seal();
  }

 private:
  void Seal() {
    words[0] &= ~media::kParity;
    words[0] |= std::popcount(words[0]) % 2 * media::kParity;
  }
};

}  // namespace lodgekv::lbtree
