// SPTree on the medium. docs/media_format.md draws these structs byte by byte; change them
// together and raise kMediaVersion.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/node/batch_intent.h"
#include "index/node/checked_word.h"
#include "index/node/codec.h"
#include "index/pmem/medium.h"

namespace lodgekv::sptree {

inline constexpr uint32_t kMediaVersion = 1;
inline constexpr unsigned kBnodeSlots = 64;  // SPTree 4.1

namespace media {

using pmem::Word;

struct Slot {
  Word key;
  Word value;
};

// A leaf.
//
// Invariants
//  1. Only `bitmap` makes a slot count; bit i is slot i. It changes by one store.
//  2. The keys of slots that count lie in [lkey, hkey), where hkey is the lkey of the leaf that
//     `next` leads to. A split or a merge that was cut short leaves copies of keys from hkey on;
//     they belong to the next leaf, which may have changed since, and are removed here when the
//     leaf is touched first.
//  3. `lkey` never changes, and `next` changes by one store, which moves hkey with it.
//  4. The tag of a slot that counts is its key's.
//  5. A leaf that is no longer in the chain has been marked in `dropped`, durably, before the store
//     that unlinked it. One that is marked and in the chain is alive: the merge was cut short. So
//     whoever comes to a leaf by another way than the chain may believe it only if it is unmarked.
struct Bnode {
  Word bitmap;
  // A checked word: the leaf has, of its keys, all that log entries up to this number say. 0
  // without write buffers.
  Word watermark;
  Word next;       // a checked word: the right sibling; 0: none, and hkey is plus infinity
  Word lkey[2];    // node/separator.h
  Word dropped;    // kDropped: a merge has unlinked the leaf, or was about to; otherwise 0
  Word unused[2];  // zero
  Word tags[kBnodeSlots / 8];  // one byte a slot, low byte first
  Slot slots[kBnodeSlots];
  Word beyond[16];  // never written: leaves are aligned to 256 bytes
};
// All bits differ from those of 0 and of most words: neither becomes the other by a flipped bit.
inline constexpr uint64_t kDropped = 0x9E3779B97F4A7C15;
static_assert(sizeof(Bnode) == 1280 && sizeof(Bnode) % pmem::kBlockBytes == 0);
static_assert(offsetof(Bnode, tags) == 64 && offsetof(Bnode, slots) == 128);

// The pool's engine area.
enum EngineWord : unsigned {
  kFirstLeaf = 0,  // offset of the leftmost leaf, a checked word; it is never dropped
  kIntents = 1,    // roots of batches in progress (node/batch_intent.h)
  kFencedBelow = kIntents + BatchIntents::kRoots,  // node/fence_horizon.h
  kBackup,                                         // root of the top layer's (top_backup.h)
  kEngineWords
};

}  // namespace media

// The line of a leaf that holds the slot, and the one that holds its tag.
constexpr unsigned LineOfSlot(unsigned slot) {
  return (offsetof(media::Bnode, slots) + sizeof(media::Slot) * slot) / pmem::kLineBytes;
}
inline constexpr unsigned kTagLine = offsetof(media::Bnode, tags) / pmem::kLineBytes;
static_assert(LineOfSlot(kBnodeSlots - 1) == 17);

inline const uint8_t* TagsOf(const media::Bnode& bnode) {
  return reinterpret_cast<const uint8_t*>(bnode.tags);
}

inline Pair SlotPair(const media::Bnode& bnode, unsigned slot) {
  const media::Slot& at = bnode.slots[slot];
  return {at.key.LoadRelaxed(), at.value.LoadRelaxed()};
}

inline uint64_t WatermarkOf(const media::Bnode& bnode) {
  return bnode.watermark.Load() & kCheckedMask;
}

// Of a leaf whose `dropped` is sound.
inline bool IsMarkedDropped(const media::Bnode& bnode) { return bnode.dropped.Load() != 0; }

inline FenceWords FenceOf(const media::Bnode& bnode) {
  return {bnode.lkey[0].LoadRelaxed(), bnode.lkey[1].LoadRelaxed()};
}

}  // namespace lodgekv::sptree
