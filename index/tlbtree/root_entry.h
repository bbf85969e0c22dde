// An entry in a free slot of a root: a step of the protocols Split and Entry of README.md.
//
// Used by one thread, which has locked the anchor.
#pragma once

#include <bit>
#include <cstdint>

#include "index/tlbtree/tree_state.h"

namespace lodgekv::tlbtree {

// Stores the link in a slot that is free by `state`, and puts the slot at `place` of that state,
// which the caller stores. True: the link has been flushed, and is to be fenced before that;
// otherwise both are in one line, whose stores stay in order.
template <class C>
bool StageEntry(TreeState<C>& tree, media::Node<C>* root, const LinkTo& link, unsigned place,
                NodeState* state) {
  pmem::Medium& medium = tree.medium;
  const uint32_t usable = (uint32_t{1} << tree.parameters.node_slots) - 1;
  const auto slot = static_cast<unsigned>(std::countr_zero(usable & ~state->Slots()));
  media::Link<C>& child = root->children[slot];
  state->Insert(place, slot);
  if (medium.Canary("tlbtree.entry.state_first")) medium.Store(root->state, state->word());
  StoreLink(medium, child, link);
  if (slot < kChildrenBesideState<C> && !medium.strict_order()) return false;
  if (!medium.Canary("tlbtree.entry.link_not_flushed")) medium.Flush(&child, sizeof(child));
  return true;
}

}  // namespace lodgekv::tlbtree
