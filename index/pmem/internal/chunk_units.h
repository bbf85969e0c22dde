// A chunk of an arena, and which of its units are used.
//
// Invariants
//  1. In a finished chunk a set bit is a unit that is used, or free in some cache; `free` counts
//     the others.
//  2. In an unfinished chunk (adopted, its units still being marked) a set bit is a marked unit,
//     `free` is 0, and no unit is allocated. So nothing that was ever linked there gets a second
//     owner.
//  3. A unit that was freed before the chunk was finished ends up free, whether it was marked
//     before, after or never; one that was held and not freed ends up used, whether it was marked
//     or not.
//  4. Bits past the last unit are set.
//
// Mark and Unmark may be called by any thread, but not while the chunk is being finished; the rest
// under the arena's mutex.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "index/pmem/pool.h"

namespace lodgekv::pmem {

struct ChunkUnits {
  static constexpr uint32_t kWordBits = 64;

  Chunk chunk;
  uint32_t units = 0;
  uint32_t free = 0;
  uint32_t first_word = 0;  // no unit of an earlier word is free
  std::vector<uint64_t> bits;
  // Only in an unfinished chunk; empty when there is none.
  std::vector<uint64_t> held;
  std::vector<uint64_t> freed;

  ChunkUnits(const Chunk& of, uint32_t unit_bytes, bool finished)
      : chunk(of),
        units(static_cast<uint32_t>(of.bytes / unit_bytes)),
        free(finished ? units : 0),
        bits((units + kWordBits - 1) / kWordBits) {
    if (units % kWordBits != 0) bits.back() = ~uint64_t{0} << units % kWordBits;
  }

  bool IsEmpty() const { return free == units; }

  // --- finished ---
  uint32_t Take() {
    while (bits[first_word] == ~uint64_t{0}) ++first_word;
    const auto bit = static_cast<uint32_t>(std::countr_one(bits[first_word]));
    bits[first_word] |= uint64_t{1} << bit;
    --free;
    return first_word * kWordBits + bit;
  }

  // False: it is free.
  bool Give(uint32_t unit) {
    if ((bits[unit / kWordBits] & BitOf(unit)) == 0) return false;
    bits[unit / kWordBits] &= ~BitOf(unit);
    first_word = std::min(first_word, unit / kWordBits);
    ++free;
    return true;
  }

  // --- not finished ---
  // False: it was marked.
  bool Mark(uint32_t unit) {
    const std::atomic_ref<uint64_t> word(bits[unit / kWordBits]);
    return (word.fetch_or(BitOf(unit), std::memory_order_relaxed) & BitOf(unit)) == 0;
  }
  void Unmark(uint32_t unit) {
    const std::atomic_ref<uint64_t> word(bits[unit / kWordBits]);
    word.fetch_and(~BitOf(unit), std::memory_order_relaxed);
  }
  void Hold(uint32_t unit) { (void)Set(held, unit); }
  // False: it was freed.
  bool PutOff(uint32_t unit) { return Set(freed, unit); }

  // Ends marking. Returns how many frees were deferred.
  uint32_t Finish() {
    uint32_t used = 0;
    uint32_t put_off = 0;
    for (size_t i = 0; i < bits.size(); ++i) {
      if (!held.empty()) bits[i] |= held[i];
      if (!freed.empty()) {
        bits[i] &= ~freed[i];
        put_off += static_cast<uint32_t>(std::popcount(freed[i]));
      }
      used += static_cast<uint32_t>(std::popcount(bits[i]));
    }
    used -= static_cast<uint32_t>(bits.size()) * kWordBits - units;
    free = units - used;
    held = {};
    freed = {};
    return put_off;
  }

 private:
  static uint64_t BitOf(uint32_t unit) { return uint64_t{1} << unit % kWordBits; }

  // False: it was set.
  bool Set(std::vector<uint64_t>& words, uint32_t unit) const {
    words.resize(bits.size());
    uint64_t& word = words[unit / kWordBits];
    const bool was_set = (word & BitOf(unit)) != 0;
    word |= BitOf(unit);
    return !was_set;
  }
};

}  // namespace lodgekv::pmem
