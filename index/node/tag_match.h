// Which of up to 64 tags, of one byte each, equal one: the fingerprints of a leaf's keys. AVX2, and
// a scalar twin that tests compare it with and that ThreadSanitizer gets: tags may be changing, and
// the caller validates.
//
// The number of tags is known to the compiler, so that a tree gets the few instructions that its
// own number needs. No byte beside the tags is read. A tree whose tags are a few less than a power
// of two, and lie beside bytes of its own, asks for all of these and masks what is no tag.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

namespace lodgekv {

inline constexpr unsigned kMostTags = 64;

// Bit i: tags[i] == tag. The bits from kTags on are 0. Any alignment.
template <unsigned kTags>
uint64_t MatchTagsScalar(const uint8_t* tags, uint8_t tag) {
  static_assert(kTags >= 1 && kTags <= kMostTags);
  uint64_t equal = 0;
  for (unsigned i = 0; i < kTags; ++i) {
    const std::atomic_ref at(const_cast<uint8_t&>(tags[i]));
    equal |= uint64_t{at.load(std::memory_order_relaxed) == tag} << i;
  }
  return equal;
}

namespace internal {

// Of 1, 2, 4, 8, 16 or 32 tags.
template <unsigned kTags>
uint64_t MatchPowerOfTwo(const uint8_t* tags, uint8_t tag) {
  if constexpr (kTags == 32) {
    const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tags));
    const __m256i wanted = _mm256_set1_epi8(static_cast<char>(tag));
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(all, wanted)));
  } else {
    __m128i all;
    if constexpr (kTags == 16) {
      all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(tags));
    } else {
      uint64_t word = 0;
      std::memcpy(&word, tags, kTags);
      all = _mm_cvtsi64_si128(static_cast<int64_t>(word));
    }
    const __m128i wanted = _mm_set1_epi8(static_cast<char>(tag));
    const auto equal = static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(all, wanted)));
    return equal & ((uint32_t{1} << kTags) - 1);
  }
}

}  // namespace internal

// The same, by one vector or two, which overlap unless the tags fill them.
template <unsigned kTags>
uint64_t MatchTagsAvx2(const uint8_t* tags, uint8_t tag) {
  static_assert(kTags >= 1 && kTags <= kMostTags);
  constexpr unsigned kFirst = std::min(std::bit_floor(kTags), 32u);
  constexpr unsigned kRest = kTags - kFirst;
  const uint64_t first = internal::MatchPowerOfTwo<kFirst>(tags, tag);
  if constexpr (kRest == 0) {
    return first;
  } else {
    return first | internal::MatchPowerOfTwo<kFirst>(tags + kRest, tag) << kRest;
  }
}

template <unsigned kTags>
uint64_t MatchTags(const uint8_t* tags, uint8_t tag) {
#if defined(__SANITIZE_THREAD__)
  return MatchTagsScalar<kTags>(tags, tag);
#else
  return MatchTagsAvx2<kTags>(tags, tag);
#endif
}

}  // namespace lodgekv
