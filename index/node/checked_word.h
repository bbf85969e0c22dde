// A word on the medium with its own checksum: a value below 2^52 and, in its high bits, 12 check
// bits that detect every single flipped bit. Zero encodes zero, so that space that was never
// written is valid.
#pragma once

#include <cstdint>

#include "index/pmem/crc32c.h"

namespace lodgekv {

inline constexpr unsigned kCheckedBits = 52;
inline constexpr uint64_t kCheckedMask = (uint64_t{1} << kCheckedBits) - 1;

// 12 bits over up to two words.
inline uint64_t CheckBitsOf(uint64_t first, uint64_t second = 0) {
  const uint64_t words[2] = {first, second};
  const uint32_t crc = pmem::Crc32c(0, words, sizeof(words));
  return crc >> 20;
}

// `value` is below 2^52.
inline uint64_t CheckedWord(uint64_t value) { return CheckBitsOf(value) << kCheckedBits | value; }

// False: bits of `word` have flipped.
inline bool ReadChecked(uint64_t word, uint64_t* value) {
  *value = word & kCheckedMask;
  return CheckBitsOf(*value) == word >> kCheckedBits;
}

}  // namespace lodgekv
