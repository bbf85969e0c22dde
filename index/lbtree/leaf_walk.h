// Walks the leaves from left to right, concurrent with everything else. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "index/lbtree/tree_state.h"

namespace lodgekv::lbtree {

template <class C>
class LeafWalk {
 public:
  using Bounds = typename TreeState<C>::Bounds;
  // Called with a leaf, its bounds and the valid slots of each of its blocks. False ends the walk.
  using Visitor = absl::FunctionRef<bool(const media::Block* leaf, const Bounds& bounds,
                                         const uint32_t* slots)>;

  explicit LeafWalk(const TreeState<C>& tree) : tree_(tree) {}

  // Visits every leaf from the one that covers `from` on, each as of one moment, inside an
  // EpochGuard.
  void ForEach(std::string from, Visitor visit) const;
  void ForEach(Visitor visit) const { ForEach(C::TextOf(C::MinusInfinity()), visit); }
  uint64_t CountKeys() const;

 private:
  const TreeState<C>& tree_;
};

}  // namespace lodgekv::lbtree
