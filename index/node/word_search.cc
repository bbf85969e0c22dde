#include "index/node/word_search.h"

namespace lodgekv {

WordMasks CompareWordsScalar(const uint64_t* words, uint64_t word) {
  WordMasks masks{0, 0};
  for (unsigned i = 0; i < 32; ++i) {
    masks.less |= static_cast<uint32_t>(words[i] < word) << i;
    masks.equal |= static_cast<uint32_t>(words[i] == word) << i;
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

__attribute__((target("avx512f"))) WordMasks CompareWordsAvx512(const uint64_t* words,
                                                                uint64_t word) {
  const __m512i wanted = _mm512_set1_epi64(static_cast<int64_t>(word));
  WordMasks masks{0, 0};
  for (unsigned i = 0; i < 4; ++i) {
    const __m512i some = _mm512_load_si512(words + 8 * i);
    masks.less |= static_cast<uint32_t>(_mm512_cmplt_epu64_mask(some, wanted)) << (8 * i);
    masks.equal |= static_cast<uint32_t>(_mm512_cmpeq_epi64_mask(some, wanted)) << (8 * i);
  }
  return masks;
}

namespace {

CompareWordsFunction Choose() {
#if defined(__SANITIZE_THREAD__)
  return CompareWordsScalar;
#else
  return __builtin_cpu_supports("avx512f") ? CompareWordsAvx512 : CompareWordsAvx2;
#endif
}

}  // namespace

const CompareWordsFunction CompareWords = Choose();

}  // namespace lodgekv
