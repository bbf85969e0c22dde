// The state word of a node (TLBtree III (2)): which of its slots are valid, in the order of their
// keys. One 8-byte store of it commits an insertion, a deletion, or a split.
//
//   count : 4 | order : 13 x 4 | alt : 1 | check : 7
//
// `order` is a permutation of all slots: the first `count` are the valid ones, by ascending keys,
// the rest are free. alt selects the sibling. The check bits cover all others, and are made when
// the word is asked for.
//
// A plain value.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "index/node/checked_word.h"

namespace lodgekv::tlbtree {

class NodeState {
 public:
  static constexpr unsigned kPlaces = 13;

  NodeState() : NodeState(kEmptyBits) {}
  explicit NodeState(uint64_t word) : word_(word) {}

  // With its check bits.
  uint64_t word() const { return bits() | CheckOf(bits()) << kCheckBit; }
  unsigned count() const { return static_cast<unsigned>(word_ & 0xf); }
  unsigned alt() const { return static_cast<unsigned>(word_ >> kAltBit & 1); }
  // Of a node of `slots` whose `count` valid ones are `first` and those after it, in this order;
  // the first of all comes after the last.
  static NodeState Ascending(unsigned first, unsigned count, unsigned slots);

  // The slot with the place-th smallest key; from count() on a free one.
  unsigned SlotAt(unsigned place) const {
    return static_cast<unsigned>(word_ >> (kOrderBit + 4 * place) & 0xf);
  }
  // The inverse of SlotAt.
  unsigned PlaceOf(unsigned slot) const {
    constexpr uint64_t kOnes = 0x1111111111111;
    const uint64_t differ = order() ^ kOnes * slot;
    const uint64_t equal = ~(differ | differ >> 1 | differ >> 2 | differ >> 3) & kOnes;
    return static_cast<unsigned>(std::countr_zero(equal)) / 4;
  }
  // Whether the slot is valid: its digit is among the first count().
  bool Has(unsigned slot) const { return PlaceOf(slot) < count(); }
  // A bit for each valid slot.
  uint32_t Slots() const { return SlotsUpTo(count()); }
  // Of a word as it was read. False: bits have flipped, or it was never written.
  bool IsSound() const;

  // The free slot `slot` becomes the one at `place`.
  void Insert(unsigned place, unsigned slot) {
    Set(WithDigit(WithoutDigit(order(), PlaceOf(slot)), place, slot), count() + 1);
  }
  void Remove(unsigned place) {
    const unsigned left = count() - 1;
    Set(WithDigit(WithoutDigit(order(), place), left, SlotAt(place)), left);
  }
  // The pair of the valid slot `from` is in the free slot `to` now.
  void Move(unsigned from, unsigned to) {
    const uint64_t differ = from ^ to;
    Set(order() ^ (differ << 4 * PlaceOf(from) | differ << 4 * PlaceOf(to)), count());
  }
  // Keeps the first `count` places.
  void Truncate(unsigned count) { word_ = (word_ & ~uint64_t{0xf}) | count; }
  void FlipAlt() { word_ ^= uint64_t{1} << kAltBit; }

  friend bool operator==(const NodeState& a, const NodeState& b) { return a.bits() == b.bits(); }

 private:
  static constexpr unsigned kOrderBit = 4;
  static constexpr unsigned kAltBit = 56;
  static constexpr unsigned kCheckBit = 57;
  static constexpr uint64_t kOrderMask = (uint64_t{1} << (4 * kPlaces)) - 1;
  static constexpr uint64_t kEmptyBits = uint64_t{0xcba9876543210} << kOrderBit;

  // A bit for each slot at the first `places` places: a table turns all digits into bits at once.
  // Digits are distinct, or the word is damaged, and then any bits may come out.
  uint32_t SlotsUpTo(unsigned places) const {
    constexpr uint64_t kDigits = 0x0f0f0f0f0f0f0f0f;
    const __m128i low_bits = _mm_set_epi64x(0, static_cast<int64_t>(0x8040201008040201));
    const __m128i high_bits = _mm_set_epi64x(0x1008040201, 0);
    const uint64_t order = word_ >> kOrderBit | ~uint64_t{0} << (4 * places);
    const __m128i digits = _mm_set_epi64x(static_cast<int64_t>(_pdep_u64(order >> 32, kDigits)),
                                          static_cast<int64_t>(_pdep_u64(order, kDigits)));
    const __m128i zero = _mm_setzero_si128();
    const __m128i low = _mm_sad_epu8(_mm_shuffle_epi8(low_bits, digits), zero);
    const __m128i high = _mm_sad_epu8(_mm_shuffle_epi8(high_bits, digits), zero);
    const __m128i both = _mm_add_epi64(low, _mm_slli_epi64(high, 8));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_add_epi64(both, _mm_srli_si128(both, 8)))) &
           ((uint32_t{1} << kPlaces) - 1);
  }
  static uint64_t CheckOf(uint64_t bits) {
    return CheckBitsOf(bits) & ((uint64_t{1} << (64 - kCheckBit)) - 1);
  }
  uint64_t order() const { return word_ >> kOrderBit & kOrderMask; }
  uint64_t bits() const { return word_ & ((uint64_t{1} << kCheckBit) - 1); }
  void Set(uint64_t order, unsigned count) {
    word_ = (word_ & uint64_t{1} << kAltBit) | order << kOrderBit | count;
  }
  // Removes the digit of 4 bits at `place`; those above it move down.
  static uint64_t WithoutDigit(uint64_t digits, unsigned place) {
    const uint64_t below = (uint64_t{1} << (4 * place)) - 1;
    return (digits & below) | (digits >> 4 & ~below);
  }
  // Inserts a digit at `place`; those from there on move up.
  static uint64_t WithDigit(uint64_t digits, unsigned place, uint64_t digit) {
    const uint64_t below = (uint64_t{1} << (4 * place)) - 1;
    return (digits & below) | digit << (4 * place) | (digits & ~below) << 4;
  }

  uint64_t word_;  // its check bits are those that were read, or any
};

}  // namespace lodgekv::tlbtree
