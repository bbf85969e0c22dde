// Search over the 16 bytes of a node: SSE2, which every processor has, and a scalar twin that tests
// compare it with and ThreadSanitizer runs. As a function pointer, and inline for the paths that
// are compiled once for each form (index/node/search_form.h).
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lodgekv::art {

// Bit i of `less`: bytes[i] < byte. Bit i of `equal`: bytes[i] == byte.
struct ByteMasks {
  uint32_t less;
  uint32_t equal;
};

// `bytes` has 16 elements and is aligned to 16.
using CompareBytesFunction = ByteMasks (*)(const uint8_t* bytes, uint8_t byte);

ByteMasks CompareBytesScalar(const uint8_t* bytes, uint8_t byte);

inline ByteMasks CompareBytesSse2(__m128i all, uint8_t byte) {
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(byte));
  const __m128i equal = _mm_cmpeq_epi8(all, wanted);
  const __m128i not_above = _mm_cmpeq_epi8(_mm_min_epu8(all, wanted), all);
  return {static_cast<uint32_t>(_mm_movemask_epi8(_mm_andnot_si128(equal, not_above))),
          static_cast<uint32_t>(_mm_movemask_epi8(equal))};
}

inline ByteMasks CompareBytesSse2(const uint8_t* bytes, uint8_t byte) {
  return CompareBytesSse2(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)), byte);
}

// SSE2's, but for ThreadSanitizer; chosen once, before main.
extern const CompareBytesFunction CompareBytes;

struct SearchBytesByPointer {
  static ByteMasks Compare(const uint8_t* bytes, uint8_t byte) { return CompareBytes(bytes, byte); }
  // The same of four bytes, the first one lowest; those behind them are as if zero.
  static ByteMasks CompareFour(uint32_t four, uint8_t byte) {
    alignas(16) uint8_t bytes[16] = {};
    std::memcpy(bytes, &four, sizeof(four));
    return CompareBytes(bytes, byte);
  }
};
struct SearchBytesBySse2 {
  static ByteMasks Compare(const uint8_t* bytes, uint8_t byte) {
    return CompareBytesSse2(bytes, byte);
  }
  static ByteMasks CompareFour(uint32_t four, uint8_t byte) {
    return CompareBytesSse2(_mm_cvtsi32_si128(static_cast<int>(four)), byte);
  }
};

// The search over bytes of a form of search. Tests have forms with one of their own.
template <class Form>
struct ByteSearch {
  using Type = std::conditional_t<Form::kInlines, SearchBytesBySse2, SearchBytesByPointer>;
};

}  // namespace lodgekv::art
