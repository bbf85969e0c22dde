#include "index/tlbtree/node_state.h"

namespace lodgekv::tlbtree {

bool NodeState::IsSound() const {
  return CheckOf(bits()) == word_ >> kCheckBit && count() <= kPlaces &&
         SlotsUpTo(kPlaces) == (uint32_t{1} << kPlaces) - 1;
}

NodeState NodeState::Ascending(unsigned first, unsigned count) {
  constexpr uint64_t kAll = kEmptyBits >> kOrderBit;
  NodeState state;
  state.Set((kAll >> 4 * first | kAll << 4 * (kPlaces - first)) & kOrderMask, count);
  return state;
}

}  // namespace lodgekv::tlbtree
