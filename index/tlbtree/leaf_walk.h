// Walks the leaves from left to right, concurrent with everything else. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "index/node/epoch.h"
#include "index/tlbtree/descent.h"

namespace lodgekv::tlbtree {

template <class C>
class LeafWalk {
 public:
  // Called with a leaf and its state, validated. False ends the walk.
  using Visitor = absl::FunctionRef<bool(const LeafPlace<C>& place, const NodeState& state)>;

  explicit LeafWalk(TreeState<C>& tree) : tree_(tree), descent_(tree) {}

  // Visits every leaf from the one that covers `from` on, each as of one moment, inside an
  // EpochGuard. False: something is damaged, and the walk has ended there.
  bool ForEach(std::string from, Visitor visit) const;
  bool ForEach(Visitor visit) const { return ForEach(C::TextOf(C::MinusInfinity()), visit); }
  uint64_t CountKeys() const {
    uint64_t keys = 0;
    (void)ForEach([&](const LeafPlace<C>&, const NodeState& state) {
      keys += state.count();
      return true;
    });
    return keys;
  }

 private:
  TreeState<C>& tree_;
  const Descent<C> descent_;
};

template <class C>
bool LeafWalk<C>::ForEach(std::string from, Visitor visit) const {
  for (;;) {
    const EpochGuard guard;
    const typename C::Key key = C::MakeKey(from);
    LeafPlace<C> place;
    descent_.ToLeaf(Target<C>{&key}, &place);
    if (place.leaf == nullptr) return false;
    NodeState state;
    {
      const OptimisticSection section;
      state = tree_.locks.ViewOf(place.leaf).state();
      if (!tree_.locks.Of(place.leaf).Validate(place.snapshot)) continue;
    }
    if (!visit(place, state) || place.high.node() == 0) return true;
    from = OwnTextOfLow<C>(tree_.pool, place.high.low);
  }
}

}  // namespace lodgekv::tlbtree
