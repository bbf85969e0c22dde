// Maps the running index of a key to the number from which it is made.
//
// A number has three parts: a range of 8 bits (drawn by a hash of the index, uniform or 80/20, or
// by one of the burst of the index), a permutation of the index, and two low bits for the kind of
// key. So, with any mixture of distributions:
// - the numbers of two indices differ, without a table of used ones;
// - the key of an absent reference is never inserted, and lies among the inserted ones;
// - the first kHotRanges of the 256 ranges, a fifth of the key space, form one contiguous hot
//   range. Sequential keys ascend above nearly all others, like appended ones.
#pragma once

#include <cstdint>

#include "bench/engine_bench/workload.h"

namespace lodgekv::bench {

// Identifies a key independently of its format.
struct KeyRef {
  uint64_t index = 0;
  Distribution distribution = Distribution::kUniform;  // by which it was or would be inserted
  bool absent = false;                                 // never inserted
};

class KeyNumbers {
 public:
  static constexpr unsigned kRanges = 256;
  static constexpr unsigned kHotRanges = 51;
  static constexpr unsigned kHotPercent = 80;
  // Number of consecutive indices of a burst, all in one of the ranges.
  static constexpr uint64_t kBurstKeys = uint64_t{1} << 16;

  // Numbers of 64 bits, spread over all of them.
  static KeyNumbers Full(uint64_t seed) { return KeyNumbers(seed, 54, 0xffffff0000000000ULL); }
  // The smallest numbers for `capacity` indices: at most 53 bits, 16 decimal digits.
  static KeyNumbers Dense(uint64_t seed, uint64_t capacity);

  uint64_t Number(const KeyRef& key) const;

  // Whether a key that was not inserted in sequence lies in the hot range.
  bool IsHot(uint64_t index, Distribution distribution) const {
    return Range(index, distribution) < kHotRanges;
  }

 private:
  KeyNumbers(uint64_t seed, unsigned bits, uint64_t sequential_base)
      : seed_(seed), bits_(bits), sequential_base_(sequential_base) {}

  uint64_t Range(uint64_t index, Distribution distribution) const;
  uint64_t Permute(uint64_t index) const;

  uint64_t seed_;
  unsigned bits_;  // of the permutation
  uint64_t sequential_base_;
};

}  // namespace lodgekv::bench
