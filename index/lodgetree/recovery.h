// Recovery (LodgeTree IV-E): the leaf chain is built into nodes (recovery_leaves.cc), then the
// newest entry of each key that is only in a log is replayed (recovery_log.cc), all of it by
// several threads. Two things change the medium: a fence group that is dropped because one of its
// records is not whole is made unreadable, before anything else; and replay may find a buffer full,
// and drains it by the ordinary protocol. So recovery may be interrupted anywhere and repeated.
//
// In a pool that was closed cleanly each leaf's chunk is verified when the chain reaches it, and
// the rest before the logs are read (FinishVerify): nothing is stored before that.
//
// After a kill without a power cut recovery sees stores that were never flushed. A later power cut
// must not undo what recovery believed. What it believed of the logs it flushes (Settler). Leaves
// are settled later (node/settle_at_touch.h): until the last of them is durable no log is
// overwritten, so what a power cut takes from a leaf is replayed again.
//
// Which entries are replayed, and what happens to those whose record is not whole, is decided by
// the log (node/log_replay.h, node/log_contents.h).
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "index/lodgetree/lodgetree.h"
#include "index/node/chain_walk.h"
#include "index/node/recovery_tasks.h"
#include "index/pmem/per_worker.h"

namespace lodgekv::lodgetree {

inline absl::Status Damaged(std::string_view what, pmem::Offset offset) {
  return DamagedPool("lodgetree", what, offset);
}

template <class C>
class LodgeTree<C>::Recovery {
 public:
  Recovery(TreeParts<C>& parts, const EngineContext& context, RecoveryReport* report)
      : parts_(parts),
        pool_(parts.pool),
        context_(context),
        report_(*report),
        settler_(pool_.medium(),
                 !pool_.was_clean() && !pool_.medium().Canary("lodgetree.recovery.no_settle")) {}

  absl::Status Run();

 private:
  // For chain_walk.h.
  struct Links {
    pmem::Pool& pool;
    absl::Status Next(pmem::Offset leaf, pmem::Offset* next) const;
    void Prefetch(pmem::Offset leaf) const { lodgekv::Prefetch(pool.At<char>(leaf)); }
    absl::Status NoLeaf(pmem::Offset, pmem::Offset next) const {
      return Damaged("a leaf pointer that leads to no leaf", next);
    }
    absl::Status ComesBack(pmem::Offset leaf) const {
      return Damaged("a leaf that is reached twice", leaf);
    }
  };
  using Chain = ChainWalk<Links>;

  template <class Task>
  absl::Status Parallel(size_t tasks, Task task) {
    return RunTasks(tasks, context_.recovery_threads, task);
  }

  // recovery.cc
  absl::Status ReadEngineArea();
  void CountKeys();

  // recovery_leaves.cc
  absl::Status BuildNodes();
  absl::Status BuildSome(const Chain& chain, Part nodes);
  absl::Status FillNode(Node* node, std::span<const pmem::Offset> leaves, bool first_of_all);
  absl::Status ReadLowFence(pmem::Offset leaf, bool first_of_all, Separator* low);
  Separator LowOfPairs(const media::Leaf* leaf, Separator low);
  absl::Status EndNode(Node* node, const Node* right);
  void BeginSettling();
  absl::Status FillMirror(pmem::Offset offset, LeafMirror* mirror);
  void FillRecords(Node* node, unsigned leaf) const;
  bool FingerprintsFit(const media::Leaf* leaf, const LeafMirror& mirror) const;
  absl::Status MarkSlots(const media::Leaf* leaf, uint32_t slots);
  Part LeavesOf(size_t node) const { return Part::Of(report_.leaves_scanned, nodes_.size(), node); }

  // recovery_log.cc
  absl::Status ReplayLogs();

  TreeParts<C>& parts_;
  pmem::Pool& pool_;
  const EngineContext& context_;
  RecoveryReport& report_;
  const Settler settler_;
  pmem::Offset first_leaf_ = 0;
  std::vector<Node*> nodes_;                   // as built, from left to right
  pmem::PerWorker<TextsOfThread> separators_;  // until the tree takes them over
};

}  // namespace lodgekv::lodgetree
