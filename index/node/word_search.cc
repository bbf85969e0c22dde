#include "index/node/word_search.h"

#include <immintrin.h>

#include <atomic>

namespace lodgekv {

namespace {

// The first word of a node is its lock, which other threads try to take while its holder searches.
inline uint64_t LoadWord(const uint64_t& word) {
  return std::atomic_ref(const_cast<uint64_t&>(word)).load(std::memory_order_relaxed);
}

}  // namespace

WordMasks CompareWordsScalar(const uint64_t* words, uint64_t word) {
  WordMasks masks{0, 0};
  for (unsigned i = 0; i < 32; ++i) {
    const uint64_t some = LoadWord(words[i]);
    masks.less |= static_cast<uint32_t>(some < word) << i;
    masks.equal |= static_cast<uint32_t>(some == word) << i;
  }
  return masks;
}

WordMasks CompareWordsAvx2(const uint64_t* words, uint64_t word) {
  // The comparison is signed: turning the top bit over makes it unsigned.
  const __m256i top = _mm256_set1_epi64x(static_cast<int64_t>(1ull << 63));
  const __m256i wanted = _mm256_set1_epi64x(static_cast<int64_t>(word));
  const __m256i limit = _mm256_xor_si256(wanted, top);
  WordMasks masks{0, 0};
  for (unsigned i = 0; i < 8; ++i) {
    const __m256i some = _mm256_load_si256(reinterpret_cast<const __m256i*>(words) + i);
    const __m256i less = _mm256_cmpgt_epi64(limit, _mm256_xor_si256(some, top));
    const __m256i equal = _mm256_cmpeq_epi64(some, wanted);
    const auto less_bits = static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(less)));
    const auto equal_bits = static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
    masks.less |= less_bits << (4 * i);
    masks.equal |= equal_bits << (4 * i);
  }
  return masks;
}

#define LODGEKV_AVX512 gnu::target("avx512f,avx512bw,avx512dq")

namespace {

// Four masks of eight bits as one of 32.
[[LODGEKV_AVX512]] inline uint32_t Join(__mmask8 a, __mmask8 b, __mmask8 c, __mmask8 d) {
  const __mmask16 low = _mm512_kunpackb(b, a);
  const __mmask16 high = _mm512_kunpackb(d, c);
  return _cvtmask32_u32(_mm512_kunpackw(high, low));
}

}  // namespace

[[LODGEKV_AVX512]] WordMasks CompareWordsAvx512(const uint64_t* words, uint64_t word) {
  const __m512i wanted = _mm512_set1_epi64(static_cast<int64_t>(word));
  const __m512i a = _mm512_load_si512(words);
  const __m512i b = _mm512_load_si512(words + 8);
  const __m512i c = _mm512_load_si512(words + 16);
  const __m512i d = _mm512_load_si512(words + 24);
  return {Join(_mm512_cmplt_epu64_mask(a, wanted), _mm512_cmplt_epu64_mask(b, wanted),
               _mm512_cmplt_epu64_mask(c, wanted), _mm512_cmplt_epu64_mask(d, wanted)),
          Join(_mm512_cmpeq_epu64_mask(a, wanted), _mm512_cmpeq_epu64_mask(b, wanted),
               _mm512_cmpeq_epu64_mask(c, wanted), _mm512_cmpeq_epu64_mask(d, wanted))};
}

[[LODGEKV_AVX512]] uint32_t NotAboveAvx512(const uint64_t* words, uint64_t word) {
  const __m512i wanted = _mm512_set1_epi64(static_cast<int64_t>(word));
  return Join(_mm512_cmple_epu64_mask(_mm512_load_si512(words), wanted),
              _mm512_cmple_epu64_mask(_mm512_load_si512(words + 8), wanted),
              _mm512_cmple_epu64_mask(_mm512_load_si512(words + 16), wanted),
              _mm512_cmple_epu64_mask(_mm512_load_si512(words + 24), wanted));
}

#undef LODGEKV_AVX512

uint32_t NotAboveScalar(const uint64_t* words, uint64_t word) {
  uint32_t mask = 0;
  for (unsigned i = 0; i < 32; ++i) {
    mask |= static_cast<uint32_t>(LoadWord(words[i]) <= word) << i;
  }
  return mask;
}

uint32_t NotAboveAvx2(const uint64_t* words, uint64_t word) {
  const __m256i top = _mm256_set1_epi64x(static_cast<int64_t>(1ull << 63));
  const __m256i limit = _mm256_xor_si256(_mm256_set1_epi64x(static_cast<int64_t>(word)), top);
  uint32_t above = 0;
  for (unsigned i = 0; i < 8; ++i) {
    const __m256i some = _mm256_load_si256(reinterpret_cast<const __m256i*>(words) + i);
    const __m256i greater = _mm256_cmpgt_epi64(_mm256_xor_si256(some, top), limit);
    above |= static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(greater))) << (4 * i);
  }
  return ~above;
}

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kScalar = true;
#else
constexpr bool kScalar = false;
#endif

template <class Function>
Function Choose(Function scalar, Function avx2, Function avx512) {
  if (kScalar) return scalar;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq");
  return wide ? avx512 : avx2;
}

}  // namespace

const CompareWordsFunction CompareWords =
    Choose(CompareWordsScalar, CompareWordsAvx2, CompareWordsAvx512);
const NotAboveFunction NotAbove = Choose(NotAboveScalar, NotAboveAvx2, NotAboveAvx512);

}  // namespace lodgekv
