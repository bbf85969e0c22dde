// The words that lead from one node or anchor to another. The check bits of a link cover the bound
// beside it, so a flipped bit in either is detected when the node is first touched after the pool
// was opened (node_check.h); from then on they are masked off.
#pragma once

#include <cstdint>

#include "index/node/checked_word.h"
#include "index/pmem/crc32c.h"
#include "index/tlbtree/fence.h"
#include "index/tlbtree/layout.h"

namespace lodgekv::tlbtree {

inline uint64_t LinkWord(pmem::Offset node, const Low& low) {
  return CheckBitsOf(node, low.word) << kCheckedBits | node;
}
inline pmem::Offset NodeOf(uint64_t link_word) { return link_word & kCheckedMask; }

// A link as it was read.
struct LinkTo {
  Low low;
  uint64_t word = 0;

  pmem::Offset node() const { return NodeOf(word); }
  bool IsSound() const { return LinkWord(node(), low) == word; }
};

template <class C>
LinkTo LoadLink(const media::Link<C>& link) {
  return {LoadLow<C>(link.low), link.node.LoadRelaxed()};
}

template <class C>
void StoreLink(pmem::Medium& medium, media::Link<C>& link, const LinkTo& to) {
  medium.Store(link.low.word, to.low.word);
  if constexpr (C::kRecords) medium.Store(link.low.meta, to.low.meta);
  medium.Store(link.node, to.word);
}

inline LinkTo MakeLink(pmem::Offset node, const Low& low) { return {low, LinkWord(node, low)}; }

// The root word of an anchor, taken apart.
struct AnchorRoot {
  pmem::Offset node = 0;
  unsigned height = 1;
  unsigned alt = 0;
  bool dead = false;

  static AnchorRoot Of(uint64_t word) {
    const uint64_t value = word & kCheckedMask;
    return {.node = (value & kOffsetMask) * pmem::kBlockBytes,
            .height = static_cast<unsigned>(value >> kHeightBit & 3),
            .alt = static_cast<unsigned>(value >> kAltBit & 1),
            .dead = (value >> kDeadBit & 1) != 0};
  }
  uint64_t word() const {
    return CheckedWord(node / pmem::kBlockBytes | uint64_t{height} << kHeightBit |
                       uint64_t{alt} << kAltBit | uint64_t{dead} << kDeadBit);
  }

 private:
  static constexpr unsigned kHeightBit = 40;
  static constexpr unsigned kAltBit = 42;
  static constexpr unsigned kDeadBit = 43;
  static constexpr uint64_t kOffsetMask = (uint64_t{1} << kHeightBit) - 1;
};

// An anchor as it was read.
struct AnchorView {
  AnchorRoot root;
  pmem::Offset next = 0;
  Low low;

  static AnchorView Of(const media::Anchor& anchor) {
    const AnchorRoot root = AnchorRoot::Of(anchor.root.Load());
    return {root,
            anchor.next[root.alt].LoadRelaxed() & kCheckedMask,
            {anchor.low.LoadRelaxed(), anchor.low_meta.LoadRelaxed()}};
  }
};

inline uint64_t LowCheck(const pmem::Pool& pool, pmem::Offset anchor, const Low& low) {
  return pmem::Crc32cOfWords(pool.crc_seed(), anchor, low.word, low.meta);
}

}  // namespace lodgekv::tlbtree
