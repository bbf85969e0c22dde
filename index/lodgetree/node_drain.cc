// Drains the buffers of the nodes that an operation holds, if there is no room for its pair or
// their space is needed.
#include <algorithm>

#include "index/lodgetree/hotness_aware_split.h"
#include "index/lodgetree/node_writer.h"
#include "index/pmem/last_words.h"

namespace lodgekv::lodgetree {

// The operation is in the log, so it can be neither refused nor forgotten. AdmitOne, AdmitGroup and
// MakeRoom of GroupWrite ensure that this cannot happen.
template <class C>
void NodeWriter<C>::DieWithoutLeaf() {
  pmem::LastWords words;
  words.Add("lodgetree: no leaf for an operation that was admitted\n");
  words.Abort();
}

// Whether there is spare space for what the plan splits. If others have put longer keys since the
// operation was admitted, there may be none for the longest key: then that of the leaves counts,
// for which there is. Replay takes no more than that anyway: there is as much as before the crash.
template <class C>
bool NodeWriter<C>::HasSpares(const Node* node) {
  const size_t needed = node->index_count == 1 ? 1 : kept_leaves + 1;
  SpareSpace& spares = worker_.spares;
  if (!replaying && spares.Ensure(parts_.spare_source, needed, reserve_policy)) return true;
  uint64_t longest = 0;
  for (unsigned i = 0; i < plan.count; ++i) {
    longest = std::max(longest, parts_.access.LongestKey(node, plan.targets[i].leaf));
  }
  return spares.EnsureFor(parts_.spare_source, longest, needed, reserve_policy);
}

// Reduces the plan to what there are leaves for.
template <class C>
void NodeWriter<C>::FitPlan(const Node* node) {
  const bool single = node->index_count == 1;
  const bool may_split = !replaying || (single && replay_splits);
  // The plan counts possible splits. Replay counts exactly: another thread may need the last leaf.
  const bool exactly = replaying && single;
  const bool sure =
      plan.splits > 0 && (!exactly || parts_.planner.Splits(node, plan.targets.front()));
  if (sure && !(may_split && HasSpares(node))) parts_.planner.DropSplits(node, &plan);
}

// A single drain: a round of one turn.
template <class C>
void NodeWriter<C>::Drain(Node* node, uint64_t watermark) {
  worker_.round.Clear();
  worker_.unlinked.clear();
  const unsigned leaves = node->index_count;
  NodeTurn<C>& turn = worker_.round.turns.emplace_back();
  turn.node = node;
  turn.watermark = watermark;
  turn.leaves = plan.Leaves();
  turn.replays = replaying;
  if constexpr (C::kRecords) parts_.access.FetchDrained(node, turn.leaves);
  DrainRound<C> round(parts_, worker_);
  round.StageTurn(turn, {});
  // Deletes alone stage nothing: the commit words contain everything.
  if (!fenced || worker_.round.staged) {
    round.FenceStaged();
    fenced = true;
  }
  round.CommitAndPublish();
  round.FinishTurn(turn);
  moved_ |= turn.splits || node->index_count != leaves;
}

template <class C>
typename NodeWriter<C>::Node* NodeWriter<C>::DrainPlanned(Node* node, const Key& key,
                                                          uint64_t watermark) {
  Drain(node, watermark);
  return node->index_count >= parts_.parameters.MaxIndex() ? Split(node, key) : node;
}

template <class C>
typename NodeWriter<C>::Node* NodeWriter<C>::DrainWhereRoom(Node* node, const Key& key,
                                                            uint64_t watermark) {
  FitPlan(node);
  return plan.count == 0 ? node : DrainPlanned(node, key, watermark);
}

// For an operation that needs room in the buffer. If no leaf is free for a leaf split, splitting
// the node makes room without one.
template <class C>
typename NodeWriter<C>::Node* NodeWriter<C>::DrainOrSplit(Node* node, const Key& key,
                                                          uint64_t watermark) {
  FitPlan(node);
  stuck = plan.count == 0 && node->index_count == 1;
  if (stuck) return node;
  if (plan.count == 0) return Split(node, key);
  return DrainPlanned(node, key, watermark);
}

template <class C>
typename NodeWriter<C>::Node* NodeWriter<C>::MakeBufferRoom(Node* node, const Key& key,
                                                            uint64_t sequence, unsigned* leaf) {
  const uint64_t own = parts_.medium.Canary("lodgetree.flush.own_number") ? 1 : 0;
  do {
    if (stuck) {
      if (!replaying) DieWithoutLeaf();
      return node;
    }
    if (!plan_ready) parts_.planner.ChooseTargets(node, *leaf, &plan);
    plan_ready = false;
    moved_ = false;
    node = DrainOrSplit(node, key, sequence - 1 + own);
    if (moved_) *leaf = node->Search(key).leaf;
  } while (parts_.planner.NeedsDrain(node, *leaf));
  return node;
}

template <class C>
void NodeWriter<C>::DrainLeaf(Node* node, unsigned leaf, const Key& key, uint64_t sequence) {
  plan.Clear();
  (void)parts_.planner.AddTarget(node, leaf, &plan);
  (void)DrainWhereRoom(node, key, sequence);
}

template <class C>
typename NodeWriter<C>::Node* NodeWriter<C>::Split(Node* node, const Key& key) {
  moved_ = true;
  return NodeSplitter<C>(parts_, worker_).Split(held, node, key);
}

template class NodeWriter<Fixed64Codec>;
template class NodeWriter<BytesCodec>;

}  // namespace lodgekv::lodgetree
