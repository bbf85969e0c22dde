// A Bloom filter over the keys of a leaf (SPTree 4.1): a key that it does not hold is certainly not
// there. Keys are never taken out, so it is made anew when many have gone.
//
// It is made of the 16 bits of a key's hash that a slot has anyway: no key is read for it.
//
// Changed by the holder of the leaf's lock; a key is added before readers can find it in the leaf.
// A reader that finds it changing sees some bits more or less, and validates.
#pragma once

#include <cstdint>

namespace lodgekv::sptree {

class BloomFilter {
 public:
  void Clear() {
    for (uint64_t& word : words_) word = 0;
  }
  void Add(uint16_t hash) {
    const uint64_t mixed = Mix(hash);
    for (unsigned i = 0; i < kHashes; ++i) {
      const unsigned bit = BitOf(mixed, i);
      words_[bit / 64] |= uint64_t{1} << bit % 64;
    }
  }
  bool MayHold(uint16_t hash) const {
    const uint64_t mixed = Mix(hash);
    uint64_t all = ~uint64_t{0};
    for (unsigned i = 0; i < kHashes; ++i) {
      const unsigned bit = BitOf(mixed, i);
      all &= words_[bit / 64] >> bit % 64;
    }
    return (all & 1) != 0;
  }

 private:
  // 7 bits for each of 64 keys: with three hashes some 5 % false positives in a full leaf, and one
  // line less than 8 would take.
  static constexpr unsigned kBits = 448;
  static constexpr unsigned kHashes = 3;

  // As many independent bits as the indices need.
  static uint64_t Mix(uint16_t hash) {
    const uint64_t mixed = (uint64_t{hash} + 1) * 0x9E3779B97F4A7C15;
    return mixed ^ mixed >> 29;
  }
  // One below kBits, by the i-th 16 bits: a multiplication instead of a division.
  static unsigned BitOf(uint64_t mixed, unsigned i) {
    return static_cast<uint16_t>(mixed >> 16 * i) * kBits >> 16;
  }

  uint64_t words_[kBits / 64] = {};
};

}  // namespace lodgekv::sptree
