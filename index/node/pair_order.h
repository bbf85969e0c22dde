// The order of a leaf's pairs by their keys, without the branches of a sort, each of which is
// foreseen wrongly half the time when keys are random: the rank of a pair is the number of words
// below its own.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>

#include "index/node/codec.h"

namespace lodgekv {

// The most that counting is worth it for. A leaf has 64 pairs at most, and a new one.
inline constexpr unsigned kMostOrdered = 128;

// Words to be ordered, kMostOrdered at most.
class WordRanks {
 public:
  void Add(uint64_t word) { words_[count_++] = static_cast<int64_t>(word ^ kTop); }

  // order[r]: the number of the word of rank r. False: two words are equal, and `order` is not
  // complete.
  bool Order(uint8_t* order) {
    if (count_ <= 16) return OrderAmong<16>(order);
    if (count_ <= 32) return OrderAmong<32>(order);
    return count_ <= 68 ? OrderAmong<68>(order) : OrderAmong<kMostOrdered>(order);
  }

 private:
  static constexpr unsigned kLanes = sizeof(__m256i) / sizeof(uint64_t);
  static constexpr uint8_t kNone = UINT8_MAX;
  // Turned over, since comparisons are signed.
  static constexpr uint64_t kTop = uint64_t{1} << 63;

  template <unsigned kPadded>
  bool OrderAmong(uint8_t* order) {
    std::fill(words_ + count_, words_ + kPadded, INT64_MAX);
    std::memset(order, kNone, count_);
    for (unsigned i = 0; i < count_; ++i) {
      uint8_t& place = order[RankOf<kPadded>(words_[i])];
      if (place != kNone) return false;
      place = static_cast<uint8_t>(i);
    }
    return true;
  }
  template <unsigned kPadded>
  unsigned RankOf(int64_t word) const {
    const __m256i limit = _mm256_set1_epi64x(word);
    __m256i below = _mm256_setzero_si256();  // of each lane, negative
#pragma GCC unroll 32
    for (unsigned i = 0; i < kPadded; i += kLanes) {
      const __m256i some = _mm256_load_si256(reinterpret_cast<const __m256i*>(words_ + i));
      below = _mm256_add_epi64(below, _mm256_cmpgt_epi64(limit, some));
    }
    const __m128i halves =
        _mm_add_epi64(_mm256_castsi256_si128(below), _mm256_extracti128_si256(below, 1));
    return static_cast<unsigned>(-(_mm_cvtsi128_si64(halves) + _mm_extract_epi64(halves, 1)));
  }

  alignas(sizeof(__m256i)) int64_t words_[kMostOrdered];
  unsigned count_ = 0;
};

// order[r]: the number of the pair of rank r among the pairs pair_at(0) to pair_at(count - 1),
// whose keys are distinct. By the keys' first words; if some are alike, by whole keys.
template <class C, class PairAt>
void OrderPairs(const C& codec, unsigned count, PairAt pair_at, uint8_t* order) {
  WordRanks ranks;
  for (unsigned i = 0; i < count; ++i) ranks.Add(pair_at(i).key);
  if (ranks.Order(order)) return;
  std::iota(order, order + count, uint8_t{0});
  std::sort(order, order + count,
            [&](uint8_t a, uint8_t b) { return codec.Less(pair_at(a), pair_at(b)); });
}

// Copies entries, each of which has a `pair`, in the order of these.
template <class C, class Entry>
void CopyInOrder(const C& codec, std::span<const Entry> entries, Entry* sorted) {
  uint8_t order[kMostOrdered];
  const auto count = static_cast<unsigned>(entries.size());
  OrderPairs(
      codec, count, [&](unsigned i) { return entries[i].pair; }, order);
  for (unsigned i = 0; i < count; ++i) sorted[i] = entries[order[i]];
}

}  // namespace lodgekv
