// The changes of last-level nodes by one operation, or one group of writes: it holds the nodes,
// puts pairs into their buffers, and drains these if there is no room. The paper's Leaf Count-Based
// Flush (LodgeTree III-B) is called a drain here: buffers drain, lines are flushed.
//
// Invariants
//  1. Nothing is published in a buffer before `fenced`: all log entries of the operation are
//     durable.
//  2. No pair is buffered for a leaf if its pairs would not fit into two leaves: the leaf is
//     drained before (DrainPlanner::NeedsDrain).
//  3. An operation that is in the log can be neither refused nor forgotten. GroupWrite, which
//     admits it, ensures that there is a leaf if nothing else makes room; in recovery there may be
//     none, and `stuck` says so.
//
// Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/lodgetree/drain_round.h"
#include "index/lodgetree/held_nodes.h"
#include "index/lodgetree/pending_op.h"
#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

// Where a search ended; the lock proves whether that is still valid.
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
      : held(parts), plan(worker.plan), parts_(parts), worker_(worker) {}

  // Locks the node that covers `key`; waits for it. Searches and chooses what to drain before that,
  // so that the lines are fetched while it waits; if the lock is acquired as of the same version,
  // nothing has changed.
  void Lock(const Key& key, SeenNode<C> seen = {});
  // The result of Lock's search is not for the current node: there are several keys.
  void ForgetSearch() { plan_ready = searched = false; }

  // For an operation that is in the log: buffers its pair, after a drain if necessary.
  void Apply(PendingOp<C>& pending);
  // Drains until a pair of `key`, which is in the log under `sequence`, can be buffered for its
  // leaf `*leaf`. Returns the node that covers the key then, and the leaf there.
  Node* MakeBufferRoom(Node* node, const Key& key, uint64_t sequence, unsigned* leaf);
  // Drains everything buffered for `leaf`, as of the operation under `sequence`.
  void DrainLeaf(Node* node, unsigned leaf, const Key& key, uint64_t sequence);
  // Buffers a pair for `leaf`; there is room.
  void Insert(Node* node, unsigned leaf, const PendingOp<C>& pending);
  // Replaces the buffered pair `at` by a newer one of the same key.
  void Supersede(Node* node, unsigned at, const PendingOp<C>& pending);
  void EnsureFenced();

  // Drains by `plan`; a node that then has too many leaves splits. Returns the node that covers
  // `key` then.
  Node* DrainPlanned(Node* node, const Key& key, uint64_t watermark);
  // Drains what is possible by `plan`; the rest stays.
  Node* DrainWhereRoom(Node* node, const Key& key, uint64_t watermark);
  // Splits a node that has too many leaves.
  Node* Split(Node* node, const Key& key);
  [[noreturn]] static void DieWithoutLeaf();

  HeldNodes<C> held;
  // For a single key, from before its lock was acquired: its place, and what to drain first.
  typename Node::Position position;
  DrainPlan& plan;
  bool searched = false;
  bool plan_ready = false;
  bool fenced = false;
  bool drains_own = false;  // the leaf splits at once: otherwise nothing could drain it later
  pmem::ReservePolicy reserve_policy = pmem::ReservePolicy::kUse;  // for the leaves of splits
  size_t kept_leaves = 0;  // spare ones that only a node with a single leaf may use
  // Recovery: a leaf splits only if splitting its node does not make room. So recovery needs no
  // leaf that was not available before the crash (README, Recovery).
  bool replaying = false;
  bool replay_splits = false;  // a leaf may split at all
  bool stuck = false;          // no leaf, and nothing else makes room

 private:
  bool HasSpares(const Node* node);
  void FitPlan(const Node* node);
  Node* DrainOrSplit(Node* node, const Key& key, uint64_t watermark);
  void Drain(Node* node, uint64_t watermark);

  bool moved_ = false;  // leaves have other places in the node, or are in another one

  TreeParts<C>& parts_;
  Worker<C>& worker_;
};

}  // namespace lodgekv::lodgetree
