// Separators: the keys that divide children and leaves, held in DRAM, and the low fence of a leaf
// on the medium (docs/media_format.md). A separator s sends keys >= s to its right. The lowest of
// all, minus infinity, is the empty string (bytes) or 0 (fixed64).
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "index/node/checked_word.h"
#include "index/node/separator_texts.h"

namespace lodgekv {

inline size_t CommonPrefix(std::string_view a, std::string_view b) {
  const size_t n = a.size() < b.size() ? a.size() : b.size();
  size_t i = 0;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

// The shortest s with left < s <= right.
inline std::string_view ShortestSeparator(std::string_view left, std::string_view right) {
  return right.substr(0, CommonPrefix(left, right) + 1);
}

// The two words of a low fence; `meta` is, low bits first, kind:4 | inline length:4 | check:12 |
// record offset/16:44. The check bits cover all the others of both words.
struct FenceWords {
  enum Kind : uint8_t { kMinusInfinity = 0, kInline = 1, kRecord = 2 };
  uint64_t word = 0;  // the first 8 bytes, big-endian, zero padded
  uint64_t meta = 0;

  Kind kind() const { return static_cast<Kind>(meta & 0xf); }
  uint64_t inline_length() const { return meta >> 4 & 0xf; }
  uint64_t record() const { return (meta >> 20) * 16; }
  bool IsSound() const { return (meta >> 8 & 0xfff) == CheckBitsOf(word, meta & ~kCheckMask); }

  static FenceWords Inline(uint64_t word, uint64_t length) {
    return Checked(word, kInline | length << 4);
  }
  static FenceWords Record(uint64_t word, uint64_t offset) {
    return Checked(word, kRecord | (offset / 16) << 20);
  }

 private:
  static constexpr uint64_t kCheckMask = uint64_t{0xfff} << 8;
  static FenceWords Checked(uint64_t word, uint64_t meta) {
    return {word, meta | CheckBitsOf(word, meta) << 8};
  }
};

}  // namespace lodgekv
