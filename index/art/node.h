// The inner nodes of the tree: four kinds, for up to 4, 16, 48 and 256 children (ICDE 2013,
// "Structure of Inner Nodes").
//
// Invariants of a node that is in the tree
//  1. It stands at a depth: all keys under it have the same bytes up to there. The last
//     `prefix_length` of them, after the byte by which its parent leads to it, are its prefix (path
//     compression, "Collapsing Inner Nodes"). `prefix` holds the first eight of these, big-endian,
//     and zeros after them; the others are read from any leaf under the node.
//  2. `terminal` is the leaf whose key ends at that depth, if there is one: it sorts before the
//     children. So a key may be the beginning of another and may contain any byte, zeros too: keys
//     need no end mark and no escapes (the paper's "Constructing Binary-Comparable Keys" has them).
//  3. Children are in the order of their bytes: of kinds 4 and 16 the bytes are stored, ascending;
//     kinds 48 and 256 have a bit for each byte that is there.
//  4. It has two entries or more, children and terminal: with one it would be removed.
//
// Departures from the paper's kinds. Those of 48 find a child by counting bits, where the paper has
// 256 bytes of indices: 448 bytes instead of 640 and more, and what a search reads first, whether a
// byte is there and how many are below it, lies with the header in one line. Those of 256 have the
// bits too, to find the next lower child.
//
// A node's memory is only used for nodes of its kind, and its lock's version continues
// (node_store.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "index/art/child.h"
#include "index/node/version_lock.h"

namespace lodgekv::art {

inline constexpr unsigned kShownPrefix = 8;  // bytes of a prefix that the node itself holds

// What a search needs first, in a single word: a reader sees one state of it.
struct NodeInfo {
  uint16_t prefix_length = 0;
  uint16_t count = 0;  // children; never above the kind's capacity
  // Kind 4: the children's bytes. Kind 48: for each word of `present`, children below it. Kind 256:
  // the first is the lowest byte.
  uint8_t bytes[4] = {};
};
static_assert(sizeof(NodeInfo) == 8);

struct Node {
  VersionLock lock;
  std::atomic<uint64_t> info_word{0};
  std::atomic<uint64_t> prefix{0};
  Slot terminal;

  NodeInfo info() const {
    return std::bit_cast<NodeInfo>(info_word.load(std::memory_order_relaxed));
  }
  void SetInfo(NodeInfo info) {
    info_word.store(std::bit_cast<uint64_t>(info), std::memory_order_relaxed);
  }
  uint64_t shown_prefix() const { return prefix.load(std::memory_order_relaxed); }
  // `word`: its first bytes, and whatever behind them.
  void SetPrefix(uint64_t word, size_t length) {
    NodeInfo changed = info();
    changed.prefix_length = static_cast<uint16_t>(length);
    SetInfo(changed);
    const unsigned shown = static_cast<unsigned>(std::min<size_t>(length, kShownPrefix));
    prefix.store(shown == 0 ? 0 : word & ~uint64_t{0} << (64 - 8 * shown),
                 std::memory_order_relaxed);
  }
  // Children and terminal.
  unsigned entries() const { return info().count + (terminal.Get().empty() ? 0u : 1u); }
};

// Which bytes lead to a child.
class ByteSet {
 public:
  bool Has(unsigned byte) const { return (Word(byte / 64) >> byte % 64 & 1) != 0; }
  // Members below `byte` in its own word.
  unsigned BelowInWord(unsigned byte) const {
    return static_cast<unsigned>(std::popcount(Word(byte / 64) & Under(byte % 64)));
  }
  // The greatest member below `limit` (0 to 256), or -1.
  int GreatestBelow(unsigned limit) const {
    int at = static_cast<int>(limit / 64);
    uint64_t bits = at < 4 ? Word(static_cast<unsigned>(at)) & Under(limit % 64) : 0;
    while (bits == 0 && --at >= 0) bits = Word(static_cast<unsigned>(at));
    return at < 0 ? -1 : at * 64 + 63 - std::countl_zero(bits);
  }
  // The least member, or 256.
  unsigned Least() const {
    for (unsigned at = 0; at < 4; ++at) {
      if (Word(at) != 0) return at * 64 + static_cast<unsigned>(std::countr_zero(Word(at)));
    }
    return 256;
  }
  void Put(unsigned byte, bool there) {
    const uint64_t bit = uint64_t{1} << byte % 64;
    const uint64_t word = Word(byte / 64);
    words_[byte / 64].store(there ? word | bit : word & ~bit, std::memory_order_relaxed);
  }
  void Clear() {
    for (auto& word : words_) word.store(0, std::memory_order_relaxed);
  }
  uint64_t Word(unsigned at) const { return words_[at].load(std::memory_order_relaxed); }

 private:
  static uint64_t Under(unsigned bit) { return (uint64_t{1} << bit) - 1; }
  std::atomic<uint64_t> words_[4] = {};
};

struct alignas(64) Node4 : Node {
  static constexpr Kind kKind = Kind::k4;
  static constexpr unsigned kCapacity = 4;
  Slot children[kCapacity];
};

struct alignas(64) Node16 : Node {
  static constexpr Kind kKind = Kind::k16;
  static constexpr unsigned kCapacity = 16;
  alignas(16) uint8_t bytes[kCapacity] = {};
  Slot children[kCapacity];
};

struct alignas(64) Node48 : Node {
  static constexpr Kind kKind = Kind::k48;
  static constexpr unsigned kCapacity = 48;
  ByteSet present;
  Slot children[kCapacity];  // ascending

  // Children below `byte`. Of a changing node it may be any number.
  unsigned Rank(NodeInfo info, unsigned byte) const {
    return info.bytes[byte / 64] + present.BelowInWord(byte);
  }
};

struct alignas(64) Node256 : Node {
  static constexpr Kind kKind = Kind::k256;
  static constexpr unsigned kCapacity = 256;
  ByteSet present;
  Slot children[kCapacity];  // by byte
};

static_assert(sizeof(Node4) == 64);
static_assert(sizeof(Node16) == 192);
static_assert(sizeof(Node48) == 448);
static_assert(sizeof(Node256) == 2112);
static_assert(sizeof(Node) + sizeof(ByteSet) == 64, "what a search reads first is one line");

// Calls work(node) with the node as one of its kind. Part of its caller: see Find (node_search.h).
template <class Work>
[[gnu::always_inline]] inline auto ByKind(Child at, Work work) {
  switch (at.kind()) {
    case Kind::k4: return work(static_cast<Node4*>(at.node()));
    case Kind::k16: return work(static_cast<Node16*>(at.node()));
    case Kind::k48: return work(static_cast<Node48*>(at.node()));
    case Kind::k256: break;
  }
  return work(static_cast<Node256*>(at.node()));
}

}  // namespace lodgekv::art
