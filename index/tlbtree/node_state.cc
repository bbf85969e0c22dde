#include "index/tlbtree/node_state.h"

namespace lodgekv::tlbtree {

bool NodeState::IsSound() const {
  return CheckOf(bits()) == word_ >> kCheckBit && count() <= kPlaces &&
         SlotsUpTo(kPlaces) == (uint32_t{1} << kPlaces) - 1;
}

NodeState NodeState::Ascending(unsigned first, unsigned count, unsigned slots) {
  const uint64_t used = kOrderMask >> 4 * (kPlaces - slots);
  NodeState state;
  const uint64_t all = state.order() & used;
  state.Set(((all >> 4 * first | all << 4 * (slots - first)) & used) | (state.order() & ~used),
            count);
  return state;
}

}  // namespace lodgekv::tlbtree
