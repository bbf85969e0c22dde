// A leaf's metadata in DRAM (SSTree III-A, Fig. 2): its version, where its head subnode is, and of
// the head the fingerprints and a copy of the bitmap, so that most searches for keys that are
// absent end here.
//
// Invariants
//  1. Readers believe the place and slots here, not the head's word, for the head; for the overflow
//     subnodes they believe the word (node/leaf_commit.h). Both are durable by then.
//  2. `filter` has the bits of each pair in an overflow subnode, and perhaps others.
//  3. A leaf without a head has no pair: it is the only one, or its removal was put off.
//
// The paper's parent and sibling pointers are not here: parents are found by descending.
//
// Changed by the holder of the lock, between BeginPublish and EndPublish. Readers validate.
#pragma once

#include <atomic>
#include <cstdint>

#include "index/node/dram_range.h"
#include "index/node/inner_tree.h"
#include "index/node/pending_words.h"
#include "index/node/prefetch.h"
#include "index/node/tag_match.h"
#include "index/node/version_lock.h"
#include "index/pmem/pool.h"
#include "index/sstree/layout.h"

namespace lodgekv::sstree {

// Where a leaf is on the medium, and which slots of its head are valid, in one word.
class LeafPlace {
 public:
  LeafPlace() = default;
  LeafPlace(pmem::Offset head, unsigned subnodes, uint32_t slots)
      : word_(head / pmem::kBlockBytes << kOffsetShift | uint64_t{subnodes} << kCountShift | slots |
              (subnodes > 1 ? kMore : 0)) {}

  pmem::Offset head() const { return (word_ >> kOffsetShift & kOffsetMask) * pmem::kBlockBytes; }
  unsigned subnodes() const { return static_cast<unsigned>(word_ >> kCountShift); }
  // Of the head.
  uint32_t slots() const { return static_cast<uint32_t>(word_ & kSubnodeMask); }
  // The highest bit of the paper's copy of the bitmap: there is a second subnode.
  bool more() const { return (word_ & kMore) != 0; }
  void AddSlot(unsigned slot) { word_ |= uint64_t{1} << slot; }
  void RemoveSlot(unsigned slot) { word_ &= ~(uint64_t{1} << slot); }
  bool operator==(const LeafPlace&) const = default;

 private:
  static constexpr uint64_t kMore = uint64_t{1} << 15;
  static constexpr unsigned kOffsetShift = 16;
  static constexpr uint64_t kOffsetMask = (uint64_t{1} << 40) - 1;
  static constexpr unsigned kCountShift = 56;

  uint64_t word_ = 0;
};

struct Leaf {
  VersionLock lock;
  LeafPlace place;
  uint8_t fingerprints[kSubnodeSlots];  // of the head's keys
  PendingWords::Ticket pending;         // of the commit in progress (node/leaf_commit.h)
  uint64_t filter;

  // Three bits of 64 for a key, from its hash.
  static uint64_t FilterBits(uint16_t hash) {
    return uint64_t{1} << (hash & 63) | uint64_t{1} << (hash >> 5 & 63) |
           uint64_t{1} << (hash >> 10);
  }
  bool MayOverflow(uint16_t hash) const {
    const uint64_t bits = FilterBits(hash);
    return (filter & bits) == bits;
  }
  // Slots of the head whose fingerprint it is, valid or not.
  uint32_t Match(uint8_t fingerprint) const {
    return static_cast<uint32_t>(MatchTags<kSubnodeSlots>(fingerprints, fingerprint));
  }

  void PrefetchForRead() const {
    Prefetch(this);
    Prefetch(reinterpret_cast<const char*>(this) + sizeof(Leaf) - 1);
  }
  void PrefetchForWrite() const { PrefetchForRead(); }
};
static_assert(sizeof(Leaf) == 40);

// There is a leaf for some twenty keys, so the inner nodes above them do not stay in the cache: a
// read that waits for each of its misses takes a tenth less time when a node's lines are fetched at
// once. (Independent reads, which overlap anyway, take some hundredths more.)
//
// The head's lines, to which only the leaf leads, are on their way together with the leaf: inner
// nodes have hints of heads beside the numbers of the leaves.
struct LeafAccess : OwnLock<Leaf> {
  static constexpr bool kFetchInnerNodes = true;
  static constexpr bool kHinted = true;

  InnerChild ChildOf(const Leaf* leaf) const {
    return InnerChild::OfNumber(range->NumberOf(leaf), hints ? leaf->place.head() : 0);
  }
  Leaf* BelowOf(const InnerChild& child) const {
    return static_cast<Leaf*>(range->At(child.number()));
  }
  void PrefetchHinted(pmem::Offset head) const {
    if (head != 0) PrefetchLines(base + head, sizeof(media::Subnode));
  }

  const char* base;        // of the pool
  const DramRange* range;  // of all leaves
  bool hints;
};

}  // namespace lodgekv::sstree
