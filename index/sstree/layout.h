// SSTree on the medium. docs/media_format.md draws these structs byte by byte; change them together
// and raise kMediaVersion.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/node/batch_intent.h"
#include "index/node/checked_word.h"
#include "index/node/codec.h"
#include "index/node/slots_by_line.h"
#include "index/pmem/medium.h"

namespace lodgekv::sstree {

inline constexpr uint32_t kMediaVersion = 1;
inline constexpr unsigned kSubnodeSlots = 14;  // SSTree IV-A
inline constexpr unsigned kMaxSubnodes = 4;    // of a leaf: N of SSTree IV-D
inline constexpr unsigned kMaxLeafSlots = kMaxSubnodes * kSubnodeSlots;
inline constexpr uint64_t kSubnodeMask = (uint64_t{1} << kSubnodeSlots) - 1;

namespace media {

using pmem::Word;

struct Slot {
  Word key;
  Word value;
};

// What `next` may be besides a reference to the next subnode, a checked word. Space that was never
// used is zero, and so is free (SSTree III-B has a free tag of ones).
inline constexpr uint64_t kFree = 0;
inline uint64_t End() { return CheckedWord(1); }

// A subnode. A leaf is a list of them: the head subnode, and up to three overflow subnodes.
//
// Invariants
//  1. A subnode whose `next` is kFree is none of the tree's. One that no other's `next` refers to
//     is a head.
//  2. `word` of the head makes the pairs of the whole leaf valid: bits 14 * i to 14 * i + 13 are
//     the slots of subnode i, of which the head is number 0. Its top byte is the exclusive or of
//     the others. That of an overflow subnode is from its time as a head, and means nothing.
//  3. `fingerprints` are those of the next subnode's keys (delegated fingerprints, SSTree III-B), a
//     byte for each slot, the lowest first; right for valid slots.
//  4. Keys of a leaf are distinct. A split that was cut short leaves keys in two leaves, with the
//     same values; then all of those that are in the right one's range are in the right one.
struct Subnode {
  Word next;
  Word word;
  Word fingerprints[2];
  Slot slots[kSubnodeSlots];
};
static_assert(sizeof(Subnode) == pmem::kBlockBytes);
static_assert(offsetof(Subnode, word) == 8 && offsetof(Subnode, slots) == 32);

inline constexpr uint64_t kValidMask = (uint64_t{1} << kMaxLeafSlots) - 1;
static_assert(kMaxLeafSlots == 56);

// The pool's engine area.
enum EngineWord : unsigned {
  kIntents = 0,  // roots of batches in progress (node/batch_intent.h)
  kEngineWords = kIntents + BatchIntents::kRoots
};

}  // namespace media

// `word` for these valid bits.
inline uint64_t SealedWord(uint64_t valid) {
  uint64_t check = valid ^ valid >> 32;
  check ^= check >> 16;
  check ^= check >> 8;
  return valid | check << kMaxLeafSlots;
}
// False: bits of `word` have flipped.
inline bool ReadValid(uint64_t word, uint64_t* valid) {
  *valid = word & media::kValidMask;
  return SealedWord(*valid) == word;
}

// The slots of subnode `number` in a head's word.
inline uint32_t SlotsOf(uint64_t valid, unsigned number) {
  return static_cast<uint32_t>(valid >> number * kSubnodeSlots & kSubnodeMask);
}

// The line of a subnode that holds the slot.
constexpr unsigned LineOfSlot(unsigned slot) {
  return (offsetof(media::Subnode, slots) + sizeof(media::Slot) * slot) / pmem::kLineBytes;
}
inline constexpr unsigned kSubnodeLines = pmem::kBlockBytes / pmem::kLineBytes;
inline constexpr auto kSlotsOfLine = SlotsByLine<kSubnodeLines>(kSubnodeSlots, LineOfSlot);
constexpr uint32_t SlotsOfLine(unsigned line) { return kSlotsOfLine[line]; }
// The head's first line has its word, its next pointer, and two slots (SSTree Fig. 3).
static_assert(SlotsOfLine(0) == 0x3 && SlotsOfLine(3) == 0x3c00);
// A set of lines of a leaf: bit i * kSubnodeLines + k is line k of subnode i.
constexpr uint32_t LeafLine(unsigned number, unsigned line) {
  return uint32_t{1} << (number * kSubnodeLines + line);
}

inline Pair SlotPair(const media::Subnode& subnode, unsigned slot) {
  const media::Slot& at = subnode.slots[slot];
  return {at.key.LoadRelaxed(), at.value.LoadRelaxed()};
}

// The two words of 14 fingerprints, as bytes.
inline void LoadFingerprints(const media::Subnode& subnode, uint8_t (&to)[16]) {
  const uint64_t words[2] = {subnode.fingerprints[0].LoadRelaxed(),
                             subnode.fingerprints[1].LoadRelaxed()};
  __builtin_memcpy(to, words, sizeof(words));
}

}  // namespace lodgekv::sstree
