#include "index/node/word_search.h"

#include <atomic>

#include "index/node/search_form.h"

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

uint32_t NotAboveScalar(const uint64_t* words, uint64_t word) {
  uint32_t mask = 0;
  for (unsigned i = 0; i < 32; ++i) {
    mask |= static_cast<uint32_t>(LoadWord(words[i]) <= word) << i;
  }
  return mask;
}

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kScalar = true;
#else
constexpr bool kScalar = false;
#endif

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq");
}

template <class Function>
Function Choose(Function scalar, Function avx2, Function avx512) {
  if (kScalar) return scalar;
  return HasAvx512() ? avx512 : avx2;
}

}  // namespace

const CompareWordsFunction CompareWords =
    Choose(CompareWordsScalar, CompareWordsAvx2, CompareWordsAvx512);
const NotAboveFunction NotAbove =
    Choose<NotAboveFunction>(NotAboveScalar, NotAboveAvx2<>, NotAboveAvx512<>);
const SearchForm kSearchForm =
    Choose(SearchForm::kByPointer, SearchForm::kAvx2, SearchForm::kAvx512);

}  // namespace lodgekv
