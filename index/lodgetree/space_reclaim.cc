#include "index/lodgetree/space_reclaim.h"

#include <string>

#include "index/lodgetree/commit_closer.h"
#include "index/lodgetree/node_merge.h"

namespace lodgekv::lodgetree {

namespace {
constexpr unsigned kNodesAtOnce = 16;
constexpr unsigned kDrainedAtOnce = 4;  // of these
}  // namespace

// A leaf splits only if there is a free one; one per node at a time.
template <class C>
void SpaceReclaimer<C>::ChooseHolding(const Node* node, DrainPlan* plan) {
  plan->Clear();
  for (unsigned leaf = 0; leaf < node->index_count; ++leaf) {
    const DrainPlan::Target target{static_cast<uint8_t>(leaf), node->GroupMask(leaf)};
    if (target.group == 0 || !parts_.planner.HoldsSpace(node, target)) continue;
    if (parts_.planner.Splits(node, target)) {
      const bool spare = plan->splits == 0 &&
                         worker_.spares.Ensure(parts_.spare_source, 1, pmem::ReservePolicy::kKeep);
      if (!spare) continue;
      ++plan->splits;
    }
    plan->targets[plan->count++] = target;
  }
}

// Drains the leaves whose buffered pairs free space. False: there are none.
template <class C>
bool SpaceReclaimer<C>::DrainHolding(Node* node, void (*taken)(Node*)) {
  for (Backoff backoff; !node->lock.TryLock();) backoff.Pause();
  NodeWriter<C> nodes(parts_, worker_);
  nodes.held.Add(node);
  nodes.fenced = true;
  taken(node);
  ChooseHolding(node, &nodes.plan);
  const bool any = nodes.plan.count != 0;
  if (any) {
    const std::string low = C::TextOf(node->low());
    (void)nodes.DrainPlanned(node, C::MakeKey(low), parts_.pool.PeekSequence() - 1);
  }
  nodes.held.UnlockAll();
  if (any) {
    CommitCloser<C>(parts_, worker_).CloseNow();
    worker_.ReleaseDrainedLogs(parts_.log);
  }
  NodeMerger<C>(parts_, worker_).MergeSparseNodes();
  return any;
}

// Drains until a few nodes have freed something: freeing one record costs as much as freeing some.
// Deletes first: their space is certain. False: no node is left to examine.
template <class C>
bool SpaceReclaimer<C>::DrainHoldingNodes() {
  unsigned drained = 0;
  unsigned looked = 0;
  for (; looked < kNodesAtOnce && drained < kDrainedAtOnce; ++looked) {
    if (Node* node = parts_.holders.deletes().Take(); node != nullptr) {
      drained += DrainHolding(node, SpaceHolders<C>::Deletes::Taken) ? 1 : 0;
    } else if (node = parts_.holders.puts().Take(); node != nullptr) {
      drained += DrainHolding(node, SpaceHolders<C>::Puts::Taken) ? 1 : 0;
    } else {
      break;
    }
  }
  return drained != 0 || looked == kNodesAtOnce;
}

template <class C>
bool SpaceReclaimer<C>::Reclaim() {
  bool reclaimed = parts_.rest.FinishNow();
  if (!parts_.holders.empty()) {
    const std::lock_guard lock(parts_.reclaim_mutex);
    reclaimed |= DrainHoldingNodes();
  }
  return worker_.retired.Drain(parts_.reclaimer) || reclaimed;
}

template class SpaceReclaimer<Fixed64Codec>;
template class SpaceReclaimer<BytesCodec>;

}  // namespace lodgekv::lodgetree
