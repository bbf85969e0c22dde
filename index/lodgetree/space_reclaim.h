// A full pool: what waits in buffers gives its space back when an allocation has failed (README, A
// full pool). Called with no lock held.
#pragma once

#include "index/lodgetree/node_writer.h"
#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

template <class C>
class SpaceReclaimer {
 public:
  using Node = LastLevelNode<C>;
  static constexpr unsigned kMostReclaims = 8;

  SpaceReclaimer(TreeParts<C>& parts, Worker<C>& worker) : parts_(parts), worker_(worker) {}

  // When an allocation has failed. True: something came free, and it is worth another try. A few
  // nodes each time, so that no operation pays for all that others have left behind; and where
  // there is nothing to be had, a few loads.
  bool Reclaim();
  // Tries again as long as the pool is full and something comes free, a few times.
  template <class Try>
  Outcome TryToFit(const Try& attempt) {
    Outcome outcome = attempt();
    for (unsigned i = 0; outcome == Outcome::kPoolFull && i < kMostReclaims && Reclaim(); ++i) {
      outcome = attempt();
    }
    return outcome;
  }

 private:
  bool DrainHoldingNodes();
  bool DrainHolding(Node* node, void (*taken)(Node*));
  void ChooseHolding(const Node* node, DrainPlan* plan);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
