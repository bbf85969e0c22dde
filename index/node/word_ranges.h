// Some words, divided into ranges of equal length, a power of two, so that a word's range is found
// by a shift. A plain value.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace lodgekv {

class WordRanges {
 public:
  struct Range {
    uint64_t first;
    uint64_t last;
  };

  WordRanges() = default;  // none
  // Of `words` and some beside them: more than half as many as `wanted`, at most one more than it,
  // which is a power of two; or one for each word.
  WordRanges(Range words, uint64_t wanted) {
    const int bits = std::bit_width(words.last - words.first) - std::bit_width(wanted - 1);
    shift_ = static_cast<unsigned>(std::max(bits, 0));
    first_ = words.first >> shift_;
    count_ = (words.last >> shift_) - first_ + 1;
  }

  uint64_t count() const { return count_; }
  // Each is of 2 ^ shift words.
  unsigned shift() const { return shift_; }
  // Of a word that is in no range it is count() or more, also below the first one.
  uint64_t IndexOf(uint64_t word) const { return (word >> shift_) - first_; }
  Range At(uint64_t index) const {
    const uint64_t begin = (first_ + index) << shift_;
    return {begin, begin + ((uint64_t{1} << shift_) - 1)};
  }

 private:
  unsigned shift_ = 0;
  uint64_t first_ = 0;  // of the first range, without the bits that differ within it
  uint64_t count_ = 0;
};

}  // namespace lodgekv
