// The keys of the two formats as sequences of bytes: a word of eight, the highest first, or a text.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "index/node/key_word.h"

namespace lodgekv::art {

inline size_t LengthOf(uint64_t) { return sizeof(uint64_t); }
inline size_t LengthOf(std::string_view key) { return key.size(); }

// `at` is below the key's length.
inline uint8_t ByteAt(uint64_t key, size_t at) {
  return static_cast<uint8_t>(key >> (56 - 8 * at));
}
inline uint8_t ByteAt(std::string_view key, size_t at) { return static_cast<uint8_t>(key[at]); }

// The eight bytes from `at` on, big-endian; zeros behind the key's end.
inline uint64_t WordAt(uint64_t key, size_t at) { return at >= 8 ? 0 : key << 8 * at; }
inline uint64_t WordAt(std::string_view key, size_t at) { return KeyWord(key, at); }

// Of a key to which the tree leads by its first `depth` bytes (child.h).
template <class Key>
inline uint16_t HintAt(Key key, size_t depth) {
  return static_cast<uint16_t>(WordAt(key, depth) >> 48);
}

// The first position from `at` on at which they differ, one that has ended included; keys that are
// equal differ at their length.
inline size_t FirstDifference(uint64_t a, uint64_t b, size_t) {
  return static_cast<size_t>(std::countl_zero(a ^ b)) / 8;
}
inline size_t FirstDifference(std::string_view a, std::string_view b, size_t at) {
  const size_t end = std::min(a.size(), b.size());
  for (; at + 8 <= end; at += 8) {
    const uint64_t differ = KeyWord(a, at) ^ KeyWord(b, at);
    if (differ != 0) return at + static_cast<size_t>(std::countl_zero(differ)) / 8;
  }
  while (at < end && a[at] == b[at]) ++at;
  return std::min(at, end);
}

// -1, 0, 1 of keys whose first difference is at `at`.
template <class Key>
inline int OrderAt(Key a, Key b, size_t at) {
  if (at < LengthOf(a) && at < LengthOf(b)) return ByteAt(a, at) < ByteAt(b, at) ? -1 : 1;
  return LengthOf(a) == LengthOf(b) ? 0 : LengthOf(a) < LengthOf(b) ? -1 : 1;
}

}  // namespace lodgekv::art
