// Tells of each key of a group whether an earlier one is equal: a table by the keys' hashes, which
// allocates nothing for a group of usual size. Not thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace lodgekv {

class SeenKeys {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // `most`: the number of keys that may be added.
  explicit SeenKeys(size_t most) : table_(std::bit_ceil(2 * std::max<size_t>(most, 1)), 0) {}

  // Adds the key with number `i`, unless one with the same key was added: returns that one's
  // number. `same(j)`: whether key i is key j.
  template <class Same>
  size_t Add(uint16_t hash, size_t i, Same same) {
    const size_t mask = table_.size() - 1;
    size_t at = hash & mask;
    for (; table_[at] != 0; at = (at + 1) & mask) {
      const size_t other = table_[at] - 1;
      if (same(other)) return other;
    }
    table_[at] = static_cast<uint32_t>(i + 1);
    return kNone;
  }

 private:
  absl::InlinedVector<uint32_t, 512> table_;  // numbers, and 1; by the hash, with linear probing
};

// The number of the first of `count` keys that occurs again; SeenKeys::kNone: there is none.
template <class HashOf, class TextOf>
size_t FirstRepeated(size_t count, HashOf hash_of, TextOf text_of) {
  SeenKeys seen(count);
  size_t first = SeenKeys::kNone;
  for (size_t i = 0; i < count; ++i) {
    const auto same = [&](size_t other) { return text_of(other) == text_of(i); };
    first = std::min(first, seen.Add(hash_of(i), i, same));
  }
  return first;
}

}  // namespace lodgekv
