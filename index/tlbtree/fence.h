// Lower bounds as they are read from the medium, and how keys compare with them.
//
// The bound of a leaf that does not fit into its words is the key of a record. It belongs to the
// leaf; parents and siblings copy the words. So whoever reads the text is inside an EpochGuard, or
// holds a lock that keeps the leaf. A reader that has validated nothing yet may find any words: it
// compares with some text of the pool, and finds out when it validates.
//
// Thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "index/node/codec.h"
#include "index/node/epoch.h"
#include "index/tlbtree/layout.h"

namespace lodgekv::tlbtree {

// For whoever reads texts of bounds or of pairs: in `fixed64` none is in a record.
struct NoTexts {
  NoTexts() {}
  ~NoTexts() {}
};
template <class C>
using TextGuard = std::conditional_t<C::kRecords, EpochGuard, NoTexts>;

// The two words of a bound; `meta` is 0 in `fixed64`. The default is minus infinity.
struct Low {
  uint64_t word = 0;
  uint64_t meta = 0;

  friend bool operator==(const Low&, const Low&) = default;
};

template <class C>
Low LoadLow(const media::Fence<C>& fence) {
  if constexpr (C::kRecords) {
    return {fence.word.LoadRelaxed(), fence.meta.LoadRelaxed()};
  } else {
    return {fence.word.LoadRelaxed(), 0};
  }
}

// The record that holds the bound's text; 0: it needs none.
template <class C>
pmem::Offset RecordOfLow(const Low& low) {
  if constexpr (C::kRecords) {
    const FenceWords fence{low.word, low.meta};
    if (fence.kind() == FenceWords::kRecord) return fence.record();
  }
  return 0;
}

// A `bytes` bound as text; short ones are written to `scratch`.
inline std::string_view TextOfLow(const pmem::Pool& pool, const Low& low, char (&scratch)[8]) {
  const FenceWords fence{low.word, low.meta};
  if (fence.kind() == FenceWords::kRecord) {
    const pmem::Offset record = fence.record();
    const bool inside = record + sizeof(lodgekv::media::RecordHeader) <= pool.bytes();
    return inside ? KeyOfRecord(pool, record) : std::string_view();
  }
  StoreBigEndian(low.word, scratch);
  return {scratch, std::min<uint64_t>(fence.inline_length(), sizeof(scratch))};
}

template <class C>
std::string OwnTextOfLow(const pmem::Pool& pool, const Low& low) {
  if constexpr (C::kRecords) {
    char scratch[8];
    return std::string(TextOfLow(pool, low, scratch));
  } else {
    return Fixed64Codec::TextOf(low.word);
  }
}

// What a descent looks for: the leaf that covers a key, or, with `before`, the one that covers what
// is right below it. Without a key: the last leaf of all.
template <class C>
struct Target {
  const typename C::Key* key;
  bool before = false;

  // Whether the bound is not to the right of what is looked for.
  bool Reaches(const pmem::Pool& pool, const Low& low) const {
    if (key == nullptr) return true;
    if (low.word != key->word) return low.word < key->word;
    if constexpr (C::kRecords) {
      char scratch[8];
      const int order = TextOfLow(pool, low, scratch).compare(key->text);
      return before ? order < 0 : order <= 0;
    } else {
      return !before;
    }
  }
};

}  // namespace lodgekv::tlbtree
