#include "index/tlbtree/node_state.h"

#include "index/node/checked_word.h"

namespace lodgekv::tlbtree {

namespace {

constexpr unsigned kCheckBits = 7;

// Removes the digit of 4 bits at `place`; those above it move down.
uint64_t WithoutDigit(uint64_t digits, unsigned place) {
  const uint64_t below = (uint64_t{1} << (4 * place)) - 1;
  return (digits & below) | (digits >> 4 & ~below);
}

// Inserts a digit at `place`; those from there on move up.
uint64_t WithDigit(uint64_t digits, unsigned place, uint64_t digit) {
  const uint64_t below = (uint64_t{1} << (4 * place)) - 1;
  return (digits & below) | digit << (4 * place) | (digits & ~below) << 4;
}

uint64_t CheckOf(uint64_t bits) { return CheckBitsOf(bits) & ((uint64_t{1} << kCheckBits) - 1); }

}  // namespace

void NodeState::Seal() {
  word_ &= (uint64_t{1} << kCheckBit) - 1;
  word_ |= CheckOf(word_) << kCheckBit;
}

bool NodeState::IsSound() const {
  const uint64_t bits = word_ & ((uint64_t{1} << kCheckBit) - 1);
  return CheckOf(bits) == word_ >> kCheckBit && count() <= kPlaces &&
         SlotsUpTo(kPlaces) == (uint32_t{1} << kPlaces) - 1;
}

void NodeState::Insert(unsigned place, unsigned slot) {
  Set(WithDigit(WithoutDigit(order(), PlaceOf(slot)), place, slot), count() + 1);
}

NodeState NodeState::Ascending(unsigned first, unsigned count) {
  constexpr uint64_t kAll = kEmptyBits >> kOrderBit;
  NodeState state;
  state.Set((kAll >> 4 * first | kAll << 4 * (kPlaces - first)) & kOrderMask, count);
  return state;
}

void NodeState::Move(unsigned from, unsigned to) {
  const uint64_t differ = from ^ to;
  Set(order() ^ (differ << 4 * PlaceOf(from) | differ << 4 * PlaceOf(to)), count());
}

void NodeState::Remove(unsigned place) {
  const unsigned left = count() - 1;
  Set(WithDigit(WithoutDigit(order(), place), left, SlotAt(place)), left);
}

}  // namespace lodgekv::tlbtree
