// The top layer's array as it lies on the medium (TLBtree III): a search tree without pointers in
// one piece. Inner nodes are full, and a child's position is computed; leaf nodes have gaps.
//
//   header          256 bytes
//   inner levels    from the root down, nodes of 32 words: the first key of each child
//   leaf nodes      256 bytes each: 16 keys, then the 16 anchors they lead to; the last ones spare
//
// Keys are words: of `bytes` the 8 bytes after the prefix that all of them share. What is not used
// is all ones, and leads to anchor 0.
//
// INVARIANT: all of it is a hint. An anchor's own bound says whether it may be used, and the chain
// of anchors leads to the right one (sub_indices.h). So words may be stored one by one, in any
// order, and a crash may keep any of them. Only, no word leads to space that is not an anchor's.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "index/node/checked_word.h"
#include "index/pmem/crc32c.h"
#include "index/tlbtree/links.h"
#include "index/tlbtree/root_hints.h"
#include "index/tlbtree/top_shortcuts.h"

namespace lodgekv::tlbtree {

inline constexpr unsigned kTopFanout = 32;
inline constexpr unsigned kTopLeafSlots = 16;
inline constexpr unsigned kTopMaxLevels = 8;
inline constexpr unsigned kTopPrefixBytes = 128;  // what is longer is compared in the anchors
inline constexpr uint64_t kTopUnused = ~uint64_t{0};
static_assert(kTopLeafSlots == RootHints::kSlots);

namespace media {

struct TopHeader {
  Word checksum;    // CRC32C over the pool's id and all that follows
  Word leaf_nodes;  // with the spare ones
  Word entries;     // when it was built
  Word prefix_bytes;
  char prefix[kTopPrefixBytes];
  Word unused[12];
};
static_assert(sizeof(TopHeader) == pmem::kBlockBytes);

struct TopLeaf {
  Word keys[kTopLeafSlots];
  Word anchors[kTopLeafSlots];  // checked words
};
static_assert(sizeof(TopLeaf) == pmem::kBlockBytes);

}  // namespace media

// Where the parts are. A plain value.
struct TopShape {
  unsigned levels = 0;                       // of inner nodes
  std::array<uint64_t, kTopMaxLevels> at{};  // of each level, in bytes
  std::array<uint64_t, kTopMaxLevels> children{};
  uint64_t leaves_at = 0;
  uint64_t bytes = 0;

  static TopShape Of(uint64_t leaf_nodes);
  // How many leaf nodes are below one child of the level.
  static uint64_t LeavesBelow(unsigned levels, unsigned level) {
    return uint64_t{1} << (5 * (levels - 1 - level));
  }
};

// One generation, found and checked.
class TopView {
 public:
  // False: the content is damaged.
  static bool Read(char* content, uint64_t bytes, uint32_t crc_seed, TopView* view);
  static uint64_t ChecksumOf(const media::TopHeader& header, uint32_t crc_seed) {
    return pmem::Crc32c(crc_seed, &header.leaf_nodes, sizeof(header) - sizeof(header.checksum));
  }

  // What is in DRAM beside an array, before it is in use. Without shortcuts every search begins at
  // the first node.
  void DrawShortcuts();
  void MakeHints() { hints_ = RootHints(leaf_nodes_); }
  // The node of which level to begin at, for keys with the word.
  struct Node {
    unsigned level;
    uint64_t number;
  };
  Node StartFor(uint64_t word) const {
    const uint64_t child = shortcuts_.Find(word, [this](auto range) { return NodesOf(range); });
    if (child == TopShortcuts::kNone) [[unlikely]]
      return {0, 0};
    return {shortcut_level_ + 1, child};
  }

  unsigned levels() const { return shape_.levels; }
  uint64_t leaf_nodes() const { return leaf_nodes_; }
  uint64_t entries() const { return entries_; }
  uint64_t bytes() const { return shape_.bytes; }
  std::string_view prefix() const { return prefix_; }
  // The children of the level's nodes.
  uint64_t children(unsigned level) const { return shape_.children[level]; }
  const uint64_t* NodeAt(unsigned level, uint64_t node) const {
    return reinterpret_cast<const uint64_t*>(content_ + shape_.at[level]) + node * kTopFanout;
  }
  pmem::Word& KeyAt(unsigned level, uint64_t child) const {
    return reinterpret_cast<pmem::Word*>(content_ + shape_.at[level])[child];
  }
  media::TopLeaf& LeafAt(uint64_t node) const {
    return reinterpret_cast<media::TopLeaf*>(content_ + shape_.leaves_at)[node];
  }
  const RootHints& hints() const { return hints_; }
  uint64_t dram_bytes() const { return shortcuts_.bytes() + hints_.bytes(); }
  // 0: the slot is not used, or a bit of it has flipped. What it leads to was stored before.
  pmem::Offset AnchorAt(uint64_t node, unsigned slot) const {
    pmem::Offset anchor;
    return ReadChecked(LeafAt(node).anchors[slot].Load(), &anchor) ? anchor : 0;
  }

 private:
  static constexpr uint64_t kFewestChildren = 64;  // that are worth shortcuts

  uint64_t UsedChildren(unsigned level) const;
  uint64_t ChildFor(unsigned level, uint64_t word) const;
  [[gnu::noinline, gnu::cold]] TopShortcuts::Nodes NodesOf(TopShortcuts::Range range) const;

  char* content_ = nullptr;
  TopShape shape_;
  uint64_t leaf_nodes_ = 0;
  uint64_t entries_ = 0;
  std::string_view prefix_;
  RootHints hints_;
  TopShortcuts shortcuts_;  // to the children of shortcut_level_'s nodes
  unsigned shortcut_level_ = 0;
};

}  // namespace lodgekv::tlbtree
