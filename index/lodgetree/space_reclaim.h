// Frees space held by buffered operations after an allocation has failed in a full pool (README, A
// full pool). Called without locks.
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

  // Call when an allocation has failed. True: something was freed, and a retry may succeed. Drains
  // only a few nodes each time, so that no operation pays for all the work that others have
  // deferred; if nothing can be freed, it costs a few loads.
  bool Reclaim();
  // Retries as long as the pool is full and something is freed, a few times.
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
