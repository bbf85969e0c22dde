// Walks the leaves from left to right, concurrent with everything else. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "index/sstree/tree_state.h"

namespace lodgekv::sstree {

template <class C>
class LeafWalk {
 public:
  using Bounds = typename TreeState<C>::Bounds;
  // Called with a leaf, its bounds and its valid slots. False ends the walk.
  using Visitor = absl::FunctionRef<bool(Leaf* leaf, const Bounds& bounds, uint64_t valid)>;

  explicit LeafWalk(const TreeState<C>& tree) : tree_(tree) {}

  // Visits every leaf from the one that covers `from` on, each as of one moment, inside an
  // EpochGuard. `lock`: visited leaves are locked, and the visitor unlocks them, at once or behind
  // the walk.
  void ForEach(std::string from, bool lock, Visitor visit) const;
  uint64_t CountKeys() const;

 private:
  const TreeState<C>& tree_;
};

}  // namespace lodgekv::sstree
