// Wide search over the words of a node: AVX-512 where the machine has it, AVX2 elsewhere, and a
// scalar twin that tests compare them with. Inline, for the paths that are compiled once for each
// form (search_form.h), and as function pointers for all others.
#pragma once

#include <immintrin.h>

#include <cstdint>

// Of functions that the compiler may give AVX-512.
#define LODGEKV_AVX512 gnu::target("avx512f,avx512bw,avx512dq")

namespace lodgekv {

// Bit i of `less`: words[i] < word. Bit i of `equal`: words[i] == word.
struct WordMasks {
  uint32_t less;
  uint32_t equal;
};

// `words` is 64-byte aligned and has 32 elements.
using CompareWordsFunction = WordMasks (*)(const uint64_t* words, uint64_t word);
// Bit i: words[i] <= word. Half the work, for nodes whose words never tie. Where only the first 16
// words are of interest the bits of the others need not be found (kWords): they say nothing then.
using NotAboveFunction = uint32_t (*)(const uint64_t* words, uint64_t word);

WordMasks CompareWordsScalar(const uint64_t* words, uint64_t word);
uint32_t NotAboveScalar(const uint64_t* words, uint64_t word);

namespace internal {

// Bit 4 * i + j: the highest bit of element j of lanes[i]. Each element's bits are all alike.
template <unsigned kLanes>
uint32_t JoinAvx2(const __m256i (&lanes)[kLanes]) {
  static_assert(kLanes == 4 || kLanes == 8);
  const auto pack = [&](unsigned first) {
    return _mm256_packs_epi16(_mm256_packs_epi32(lanes[first], lanes[first + 1]),
                              _mm256_packs_epi32(lanes[first + 2], lanes[first + 3]));
  };
  const __m256i low = pack(0);
  __m256i high = _mm256_setzero_si256();
  if constexpr (kLanes == 8) high = pack(4);
  // A byte each now. Packing goes by halves: elements 0 and 1 of all are in the low one, elements 2
  // and 3 in the high one.
  const auto bits = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(low, high)));
  return _pdep_u32(bits, 0x33333333) | _pdep_u32(bits >> 16, 0xcccccccc);
}

// Four masks of eight bits as one of 32.
[[LODGEKV_AVX512]] inline uint32_t JoinAvx512(__mmask8 a, __mmask8 b, __mmask8 c, __mmask8 d) {
  const __mmask16 low = _mm512_kunpackb(b, a);
  const __mmask16 high = _mm512_kunpackb(d, c);
  return _cvtmask32_u32(_mm512_kunpackw(high, low));
}

}  // namespace internal

inline WordMasks CompareWordsAvx2(const uint64_t* words, uint64_t word) {
  // The comparison is signed: turning the top bit over makes it unsigned.
  const __m256i top = _mm256_set1_epi64x(static_cast<int64_t>(1ull << 63));
  const __m256i wanted = _mm256_set1_epi64x(static_cast<int64_t>(word));
  const __m256i limit = _mm256_xor_si256(wanted, top);
  __m256i less[8];
  __m256i equal[8];
  for (unsigned i = 0; i < 8; ++i) {
    const __m256i some = _mm256_load_si256(reinterpret_cast<const __m256i*>(words) + i);
    less[i] = _mm256_cmpgt_epi64(limit, _mm256_xor_si256(some, top));
    equal[i] = _mm256_cmpeq_epi64(some, wanted);
  }
  return {internal::JoinAvx2(less), internal::JoinAvx2(equal)};
}

template <unsigned kWords = 32>
uint32_t NotAboveAvx2(const uint64_t* words, uint64_t word) {
  const __m256i top = _mm256_set1_epi64x(static_cast<int64_t>(1ull << 63));
  const __m256i limit = _mm256_xor_si256(_mm256_set1_epi64x(static_cast<int64_t>(word)), top);
  __m256i above[kWords / 4];
  for (unsigned i = 0; i < kWords / 4; ++i) {
    const __m256i some = _mm256_load_si256(reinterpret_cast<const __m256i*>(words) + i);
    above[i] = _mm256_cmpgt_epi64(_mm256_xor_si256(some, top), limit);
  }
  return ~internal::JoinAvx2(above);
}

[[LODGEKV_AVX512]] inline WordMasks CompareWordsAvx512(const uint64_t* words, uint64_t word) {
  const __m512i wanted = _mm512_set1_epi64(static_cast<int64_t>(word));
  const __m512i a = _mm512_load_si512(words);
  const __m512i b = _mm512_load_si512(words + 8);
  const __m512i c = _mm512_load_si512(words + 16);
  const __m512i d = _mm512_load_si512(words + 24);
  return {
      internal::JoinAvx512(_mm512_cmplt_epu64_mask(a, wanted), _mm512_cmplt_epu64_mask(b, wanted),
                           _mm512_cmplt_epu64_mask(c, wanted), _mm512_cmplt_epu64_mask(d, wanted)),
      internal::JoinAvx512(_mm512_cmpeq_epu64_mask(a, wanted), _mm512_cmpeq_epu64_mask(b, wanted),
                           _mm512_cmpeq_epu64_mask(c, wanted), _mm512_cmpeq_epu64_mask(d, wanted))};
}

template <unsigned kWords = 32>
[[LODGEKV_AVX512]] uint32_t NotAboveAvx512(const uint64_t* words, uint64_t word) {
  static_assert(kWords == 16 || kWords == 32);
  const __m512i wanted = _mm512_set1_epi64(static_cast<int64_t>(word));
  // In this order each comparison loads its words itself.
  const __mmask8 a = _mm512_cmpge_epu64_mask(wanted, _mm512_load_si512(words));
  const __mmask8 b = _mm512_cmpge_epu64_mask(wanted, _mm512_load_si512(words + 8));
  if constexpr (kWords == 16) {
    return _cvtmask16_u32(_mm512_kunpackb(b, a));
  } else {
    return internal::JoinAvx512(a, b,
                                _mm512_cmpge_epu64_mask(wanted, _mm512_load_si512(words + 16)),
                                _mm512_cmpge_epu64_mask(wanted, _mm512_load_si512(words + 24)));
  }
}

// The widest of them that this processor runs; chosen once, before main.
extern const CompareWordsFunction CompareWords;
extern const NotAboveFunction NotAbove;

}  // namespace lodgekv
