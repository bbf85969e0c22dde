// From the running index of a key to the number that it is made of.
//
// A number has three parts: a range of 8 bits (drawn by a hash of the index, uniform or 80/20, or
// by one of the burst that the index belongs to), a permutation of the index, and two low bits that
// tell what the key is for. So, whatever mixture of distributions inserted them:
// - the numbers of two indices differ, without a table of those that are taken;
// - the key of an absent key's reference is never inserted, and lies among those that are;
// - the first kHotRanges of the 256 ranges, a fifth of the key space, are one contiguous hot range.
// Sequential keys ascend behind all but a few of the others, as appended ones do.
#pragma once

#include <cstdint>

#include "bench/engine_bench/workload.h"

namespace lodgekv::bench {

// Names one key independently of how it is written.
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
  // Indices in a row that a burst has, all in one of the ranges.
  static constexpr uint64_t kBurstKeys = uint64_t{1} << 16;

  // Numbers of 64 bits, spread over all of them.
  static KeyNumbers Full(uint64_t seed) { return KeyNumbers(seed, 54, 0xffffff0000000000ULL); }
  // Numbers as small as `capacity` indices allow: at most 53 bits, 16 decimal digits.
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
