// Where searches of the top layer begin, instead of at its first node: for each of some ranges of
// words, all of equal length, the node that leads to all of them; or the two that do, and where the
// second one's words begin (docs/decisions/0051-searches-begin-below-the-top.md).
//
// The inner levels of an array do not change once it is in use, but for what leads to spare leaf
// nodes, at its end. So an entry is made once, by the first search that asks for it, and is true
// for good. After a start there are none.
//
// In DRAM. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

#include "index/node/word_ranges.h"

namespace lodgekv::tlbtree {

class TopShortcuts {
 public:
  using Range = WordRanges::Range;
  static constexpr uint64_t kMost = 16'384;  // their entries are 256 KiB, of the second cache
  static constexpr uint64_t kNone = ~uint64_t{0};

  // Those that lead to a range, by their numbers from the left, and will later on. A plain value.
  struct Nodes {
    uint64_t first = 0;
    uint64_t last = kNone;  // then nothing is known
    uint64_t begin = 0;     // of the words that the last one leads to
  };

  TopShortcuts() = default;  // without any
  // To so many nodes, at most kMost, to which the words lead.
  TopShortcuts(uint64_t nodes, Range words)
      : ranges_(RangesFor(nodes, words)),
        dropped_bits_(std::max(ranges_.shift(), 32U) - 32),
        entries_(std::make_unique<std::atomic<uint64_t>[]>(ranges_.count())) {}

  uint64_t bytes() const { return ranges_.count() * sizeof(uint64_t); }

  // The node that leads to the word; kNone: it is to be searched for. `nodes_of(range)`: its Nodes,
  // which are asked for once.
  template <class NodesOf>
  uint64_t Find(uint64_t word, NodesOf nodes_of) const {
    const uint64_t at = ranges_.IndexOf(word);
    if (at >= ranges_.count()) return kNone;
    uint64_t entry = entries_[at].load(std::memory_order_relaxed);
    if (entry == 0) [[unlikely]] {
      entry = EntryOf(nodes_of(ranges_.At(at)));
      entries_[at].store(entry, std::memory_order_relaxed);
    }
    const uint64_t number = entry & UINT32_MAX;
    const uint64_t begin = entry >> 32;
    const uint64_t place = PlaceOf(word);
    if (number == 0 || place == begin) [[unlikely]]
      return kNone;
    return number - 1 + (place > begin ? 1 : 0);
  }

 private:
  // As many as there are nodes, at least, if there are as many words.
  static WordRanges RangesFor(uint64_t nodes, Range words) {
    const WordRanges ranges(words, std::bit_ceil(nodes));
    return ranges.count() >= nodes ? ranges : WordRanges(words, 2 * std::bit_ceil(nodes));
  }
  // An entry: begin : 32 | number of the first node + 1 : 32. The number is 0 if it does not help:
  // there are more than two nodes, or nothing is known.
  static constexpr uint64_t kNoHelp = uint64_t{1} << 32;
  static constexpr uint64_t kNever = UINT32_MAX;  // begins the second node, there being none

  // Where in its range a word is; words of which only dropped bits differ are at one place.
  uint64_t PlaceOf(uint64_t word) const {
    const uint64_t within = word & ((uint64_t{1} << ranges_.shift()) - 1);
    return within >> dropped_bits_;
  }
  uint64_t EntryOf(const Nodes& nodes) const {
    if (nodes.last - nodes.first > 1) return kNoHelp;  // also where a damaged array descends
    const uint64_t begin = nodes.last == nodes.first ? kNever : PlaceOf(nodes.begin);
    return begin << 32 | (nodes.first + 1);
  }

  WordRanges ranges_;
  unsigned dropped_bits_ = 0;
  std::unique_ptr<std::atomic<uint64_t>[]> entries_;
};

}  // namespace lodgekv::tlbtree
