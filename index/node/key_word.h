// The first bytes of a key as one integer whose order is the byte order, and the key's hash.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace lodgekv {

// Bytes [skip, skip + 8) of `key`, big-endian, padded with zeros: integer order is byte order. Keys
// with equal words may differ after them, or in length.
inline uint64_t KeyWord(std::string_view key, size_t skip) {
  if (key.size() >= skip + 8) {
    uint64_t raw;
    std::memcpy(&raw, key.data() + skip, 8);
    return __builtin_bswap64(raw);
  }
  unsigned char raw[8] = {};
  if (key.size() > skip) std::memcpy(raw, key.data() + skip, key.size() - skip);
  uint64_t word;
  std::memcpy(&word, raw, 8);
  return __builtin_bswap64(word);
}

// Whether they are equal; for keys, which are short: without a call, and a word at a time.
inline bool SameText(std::string_view a, std::string_view b) {
  constexpr size_t kShort = 64;
  constexpr size_t kWord = sizeof(uint64_t);
  const size_t bytes = a.size();
  if (bytes != b.size()) return false;
  if (bytes < kWord || bytes > kShort) return std::memcmp(a.data(), b.data(), bytes) == 0;
  const auto differ = [&](size_t at) {
    uint64_t word_a;
    uint64_t word_b;
    std::memcpy(&word_a, a.data() + at, kWord);
    std::memcpy(&word_b, b.data() + at, kWord);
    return word_a != word_b;
  };
  for (size_t at = 0; at + kWord < bytes; at += kWord) {
    if (differ(at)) return false;
  }
  return !differ(bytes - kWord);
}

// The 8 bytes of a fixed64 key or value from its word.
inline void StoreBigEndian(uint64_t word, char* out) {
  const uint64_t raw = __builtin_bswap64(word);
  std::memcpy(out, &raw, 8);
}

// The 16 bits of a key's hash that a slot stores: bits 48..63 of XXH3 with seed 0.
inline uint16_t SlotHash(std::string_view key) {
  return static_cast<uint16_t>(XXH3_64bits(key.data(), key.size()) >> 48);
}

// The same of a fixed64 key's 8 bytes, whose big-endian value is `word`: what XXH3 does with 8
// bytes, in a dozen instructions, where the library's function costs a call and decides by length.
inline uint16_t SlotHashOfWord(uint64_t word) {
  constexpr uint64_t kSecret = 0x1cad21f72c81017c ^ 0xdb979083e96dd4de;
  constexpr uint64_t kMix = 0x9fb21c651e98df25;
  constexpr uint64_t kLength = 8;
  uint64_t mixed = std::rotl(__builtin_bswap64(word), 32) ^ kSecret;
  mixed ^= std::rotl(mixed, 49) ^ std::rotl(mixed, 24);
  mixed *= kMix;
  mixed ^= (mixed >> 35) + kLength;
  mixed *= kMix;
  return static_cast<uint16_t>((mixed ^ mixed >> 28) >> 48);
}

// A leaf's one-byte fingerprint of a key is the low byte of its slot hash, so that moving a pair
// never needs the whole key.
inline uint8_t FingerprintOf(uint16_t slot_hash) { return static_cast<uint8_t>(slot_hash); }

}  // namespace lodgekv
