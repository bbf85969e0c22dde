// What one operation, or one group of writes, does to last-level nodes: it holds them, puts pairs
// into their buffers, and drains these where there is no room. The Leaf Count-Based Flush of the
// paper (LodgeTree III-B) is here a drain: buffers drain, lines are flushed.
//
// Invariants
//  1. Nothing is published in a buffer before `fenced`: all log entries of the operation are
//     durable.
//  2. A pair that is buffered for a leaf whose pairs would not fit into two leaves is never made:
//     the leaf is drained before (DrainPlanner::NeedsDrain).
//  3. An operation that is in the log can be neither refused nor forgotten. Who admits it
//     (GroupWrite) sees to it that there is a leaf where nothing else makes room; in recovery there
//     may be none, and `stuck` says so.
//
// One thread's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/lodgetree/drain_round.h"
#include "index/lodgetree/held_nodes.h"
#include "index/lodgetree/pending_op.h"
#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

// Where a search ended; the lock proves whether it still holds.
template <class C>
struct SeenNode {
  LastLevelNode<C>* node = nullptr;
  uint64_t snapshot = 0;
};

template <class C>
class NodeWriter {
 public:
  using Key = typename C::Key;
  using Node = LastLevelNode<C>;

  NodeWriter(TreeParts<C>& parts, Worker<C>& worker)
      : held(parts), parts_(parts), worker_(worker) {}

  // Waits for the node that covers `key`. Searches and chooses what to drain before it takes the
  // lock, so that the lines are on their way while it waits; that the lock could be taken proves
  // that nothing had changed.
  void Lock(const Key& key, SeenNode<C> seen = {});
  // What Lock found is not for the node at hand: of several keys.
  void ForgetSearch() { plan_ready = searched = false; }

  // Of an operation that is in the log: buffers its pair, if need be after a drain.
  void Apply(PendingOp<C>& pending);
  // A pair for `leaf`, for which there is room.
  void Insert(Node* node, unsigned leaf, const PendingOp<C>& pending);
  // The buffered pair `at` gives way to a newer one of its key.
  void Supersede(Node* node, unsigned at, const PendingOp<C>& pending);
  void EnsureFenced();

  // By `plan`; a node that then has too many leaves splits. Returns the node that covers `key`
  // then.
  Node* DrainPlanned(Node* node, const Key& key, uint64_t watermark);
  // What can be drained by `plan`; the rest waits.
  Node* DrainWhereRoom(Node* node, const Key& key, uint64_t watermark);
  // A node that has too many leaves.
  Node* Split(Node* node, const Key& key);
  [[noreturn]] static void DieWithoutLeaf();

  HeldNodes<C> held;
  // Of a lone key, from before its lock was taken: its place, and what to drain first.
  typename Node::Position position;
  DrainPlan plan;
  bool searched = false;
  bool plan_ready = false;
  bool fenced = false;
  bool drains_own = false;  // the leaf splits at once: else nothing could drain it later
  pmem::ReservePolicy reserve_policy = pmem::ReservePolicy::kUse;  // for the leaves of splits
  size_t kept_leaves = 0;  // spare ones that only a node of a single leaf may take
  // Recovery: a leaf splits only where splitting its node does not make room. So it needs no leaf
  // that was not at hand before the crash (README, Recovery).
  bool replaying = false;
  bool stuck = false;  // no leaf, where nothing else makes room

 private:
  Node* MakeBufferRoom(Node* node, const PendingOp<C>& pending);
  void FitPlan(const Node* node);
  Node* DrainOrSplit(Node* node, const Key& key, uint64_t watermark);
  void Drain(Node* node, uint64_t watermark);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
