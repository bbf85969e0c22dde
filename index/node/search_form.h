// Compiles a whole path, as a read from the engine's call to its result, once for each form of the
// search over a node's words (word_search.h), so that the search is inlined in it; and chooses the
// instance once an operation. A call of the search through a pointer, once a node, costs more than
// the search (docs/decisions/0025-paths-by-instruction-set.md).
#pragma once

#include <cstdint>

#include "index/node/word_search.h"

namespace lodgekv {

// The forms, for code that is a template over one of them. kInlines: functions may be inlined that
// tests replace when they are linked, or that ThreadSanitizer must not see inside.
struct SearchByPointer {
  static constexpr bool kInlines = false;
  static WordMasks Compare(const uint64_t* words, uint64_t word) {
    return CompareWords(words, word);
  }
  template <unsigned kWords = 32>
  static uint32_t NotAbove(const uint64_t* words, uint64_t word) {
    return lodgekv::NotAbove(words, word);
  }
};
struct SearchByAvx2 {
  static constexpr bool kInlines = true;
  static WordMasks Compare(const uint64_t* words, uint64_t word) {
    return CompareWordsAvx2(words, word);
  }
  template <unsigned kWords = 32>
  static uint32_t NotAbove(const uint64_t* words, uint64_t word) {
    return NotAboveAvx2<kWords>(words, word);
  }
};
struct SearchByAvx512 {
  static constexpr bool kInlines = true;
  [[LODGEKV_AVX512]] static WordMasks Compare(const uint64_t* words, uint64_t word) {
    return CompareWordsAvx512(words, word);
  }
  template <unsigned kWords = 32>
  [[LODGEKV_AVX512]] static uint32_t NotAbove(const uint64_t* words, uint64_t word) {
    return NotAboveAvx512<kWords>(words, word);
  }
};

enum class SearchForm : uint8_t {
  kByPointer,  // ThreadSanitizer, and tests that replace the pointers
  kAvx2,
  kAvx512,
};
extern const SearchForm kSearchForm;  // of this processor; chosen once, before main

namespace internal {

// Flat: code for AVX-512 is inlined into a function that may have it, together with all between
// them. What is rarely needed is to be declared noinline.
template <class Work, class... Args>
[[LODGEKV_AVX512, gnu::flatten, gnu::noinline]] auto RunByAvx512(Work work, Args... args) {
  return work(SearchByAvx512(), args...);
}
template <class Work, class... Args>
[[gnu::flatten, gnu::noinline]] auto RunByAvx2(Work work, Args... args) {
  return work(SearchByAvx2(), args...);
}
// Not inline, so that the choice alone needs no registers.
template <class Work, class... Args>
[[gnu::noinline]] auto RunByPointer(Work work, Args... args) {
  return work(SearchByPointer(), args...);
}

}  // namespace internal

// Calls work(form, args...), where `form` is of this processor's form. `work` captures nothing,
// and `args` are small: they are in registers.
template <class Work, class... Args>
auto RunBySearchForm(Work work, Args... args) {
  if (kSearchForm == SearchForm::kAvx512) return internal::RunByAvx512(work, args...);
  if (kSearchForm == SearchForm::kAvx2) return internal::RunByAvx2(work, args...);
  return internal::RunByPointer(work, args...);
}

}  // namespace lodgekv
