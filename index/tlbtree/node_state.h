// The state word of a node (TLBtree III (2)): which of its slots are valid, in the order of their
// keys. One 8-byte store of it commits an insertion, a deletion, or a split.
//
//   count : 4 | order : 13 x 4 | alt : 1 | check : 7
//
// `order` is a permutation of all slots: the first `count` are the valid ones, by ascending keys,
// the rest are free. alt selects the sibling. The check bits cover all others.
//
// A plain value.
#pragma once

#include <bit>
#include <cstdint>

namespace lodgekv::tlbtree {

class NodeState {
 public:
  static constexpr unsigned kPlaces = 13;

  NodeState() : NodeState(kEmptyBits) { Seal(); }
  explicit NodeState(uint64_t word) : word_(word) {}

  uint64_t word() const { return word_; }
  unsigned count() const { return static_cast<unsigned>(word_ & 0xf); }
  unsigned alt() const { return static_cast<unsigned>(word_ >> kAltBit & 1); }
  // The slot with the place-th smallest key; from count() on a free one.
  unsigned SlotAt(unsigned place) const {
    return static_cast<unsigned>(word_ >> (kOrderBit + 4 * place) & 0xf);
  }
  // Whether the slot is valid: its digit is among the first count().
  bool Has(unsigned slot) const {
    constexpr uint64_t kOnes = 0x1111111111111;
    const uint64_t differ = order() ^ kOnes * slot;
    const uint64_t equal = ~(differ | differ >> 1 | differ >> 2 | differ >> 3) & kOnes;
    return static_cast<unsigned>(std::countr_zero(equal)) < 4 * count();
  }
  // A bit for each valid slot.
  uint32_t Slots() const { return SlotsUpTo(count()); }
  // False: bits have flipped, or it was never written.
  bool IsSound() const;

  // The free slot `slot` becomes the one at `place`.
  void Insert(unsigned place, unsigned slot);
  void Remove(unsigned place);
  // Keeps the first `count` places.
  void Truncate(unsigned count) {
    word_ = (word_ & ~uint64_t{0xf}) | count;
    Seal();
  }
  void FlipAlt() {
    word_ ^= uint64_t{1} << kAltBit;
    Seal();
  }

  friend bool operator==(const NodeState&, const NodeState&) = default;

 private:
  static constexpr unsigned kOrderBit = 4;
  static constexpr unsigned kAltBit = 56;
  static constexpr unsigned kCheckBit = 57;
  static constexpr uint64_t kOrderMask = (uint64_t{1} << (4 * kPlaces)) - 1;
  static constexpr uint64_t kEmptyBits = uint64_t{0xcba9876543210} << kOrderBit;

  // A bit for each slot at the first `places` places.
  uint32_t SlotsUpTo(unsigned places) const {
    uint64_t order = word_ >> kOrderBit | ~uint64_t{0} << (4 * places);
    uint32_t slots = 0;
    for (unsigned i = 0; i < kPlaces; ++i, order >>= 4) slots |= uint32_t{1} << (order & 0xf);
    return slots & ((uint32_t{1} << kPlaces) - 1);
  }
  uint64_t order() const { return word_ >> kOrderBit & kOrderMask; }
  void Set(uint64_t order, unsigned count) {
    word_ = (word_ & uint64_t{1} << kAltBit) | order << kOrderBit | count;
    Seal();
  }
  void Seal();

  uint64_t word_;
};

}  // namespace lodgekv::tlbtree
