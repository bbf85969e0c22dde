// The drains of a round: leaves are staged, and after a fence committed and published (README, The
// drain, and The drains of a group). Buffers drain; lines are flushed. The commits stay open
// (open_commits.h).
//
// The caller clears the worker's round, gives each node a turn that says what to drain, stages the
// turns, fences, and calls CommitAndPublish, and FinishTurn for each.
//
// Invariants
//  1. No commit word is stored before everything staged, and the log entries, are fenced.
//  2. Only durable data is published: a drained pair is in the log as long as its commit is open.
//  3. What a drain replaces is given up when its commits are closed.
//
// Thread safety: the caller holds the locks of all nodes that have a turn.
#pragma once

#include <cstdint>
#include <span>

#include "index/lodgetree/commit_closer.h"
#include "index/lodgetree/leaf_writer.h"
#include "index/lodgetree/pending_op.h"
#include "index/lodgetree/tree_parts.h"

namespace lodgekv::lodgetree {

template <class C>
class DrainRound {
 public:
  using Node = LastLevelNode<C>;
  using Turn = NodeTurn<C>;

  DrainRound(TreeParts<C>& parts, Worker<C>& worker)
      : parts_(parts), worker_(worker), writer_(parts, worker), closer_(parts, worker) {}

  // `group`: the operations of a round; empty for a single drain.
  void StageTurn(Turn& turn, std::span<PendingOp<C>> group);
  // Fences what is staged, and log entries.
  void FenceStaged();
  void CommitAndPublish();
  // Call when the drain is published, and everything else for the node is in its buffer.
  void FinishTurn(const Turn& turn);

 private:
  void SortIntoLeaf(const Node* node, uint32_t superseded, LeafWork& work);
  uint32_t SendDirect(Turn& turn, std::span<PendingOp<C>> group);
  void SortDirect(const Turn& turn, std::span<PendingOp<C>> group, LeafWork& work);
  void CommitAndPublishSecond();
  void KeepOpen();
  void PublishDrain(const Turn& turn);

  TreeParts<C>& parts_;
  Worker<C>& worker_;
  LeafWriter<C> writer_;
  CommitCloser<C> closer_;
};

}  // namespace lodgekv::lodgetree
