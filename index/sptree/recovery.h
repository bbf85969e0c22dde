// Recovery (SPTree 4.6): the leaves are found along `next`, then looked through by several threads,
// each of which makes the Mnodes of its run of leaves, and the top layer is built over them. What a
// split or a merge that was cut short has left in a leaf out of its range is removed, before
// anything is served. Batches whose intent is found are done. What the logs have and no leaf is
// in the leaves' write buffers before anything is served.
//
// What changes on the medium: bitmaps (by one store each), and what intents do by the ordinary
// protocols: so recovery may be cut anywhere and begun again. After a kill the leaves' lines are
// flushed when they are touched first, or by the worker in the background, which frees what nobody
// owns afterwards (node/rest_of_recovery.h).
//
// It belongs to the thread that opens the pool; what it runs in parallel are its tasks.
//
// INVARIANT: nothing is stored before the whole pool is verified (FinishVerify), of which each leaf
// was as the chain came to it.
// INVARIANT: nothing is allocated before all that is in use has been marked. What is not in use is
// allocated only when all leaves are settled (node/settle_at_touch.h): intents are done before, in
// fresh chunks.
// INVARIANT: what a mending store relies on is durable before it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "index/engine_info.h"
#include "index/node/chain_walk.h"
#include "index/node/intent_recovery.h"
#include "index/node/recovery_tasks.h"
#include "index/sptree/leaf_examiner.h"
#include "index/sptree/pair_writer.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

// For node/chain_walk.h.
struct Siblings {
  pmem::Pool& pool;

  absl::Status Next(pmem::Offset offset, pmem::Offset* next) const;
  void Prefetch(pmem::Offset offset) const { lodgekv::Prefetch(pool.At<char>(offset)); }
  absl::Status NoLeaf(pmem::Offset offset, pmem::Offset next) const;
  absl::Status ComesBack(pmem::Offset offset) const;
};

template <class C>
class Recovery {
 public:
  Recovery(TreeState<C>& tree, PairWriter<C>& writer, const EngineContext& context,
           RecoveryReport* report)
      : tree_(tree),
        writer_(writer),
        pool_(tree.pool),
        medium_(tree.medium),
        context_(context),
        report_(*report),
        settles_(!pool_.was_clean()),
        settler_(medium_, settles_),
        examiner_(tree, settles_, LeafExaminer<C>::Marks::kFirst),
        chain_(pool_, tree.bnodes, {pool_}),
        intents_("sptree", tree, writer) {}

  absl::Status RunAll();

 private:
  // Looked through as fast as a sweep in the background would begin.
  static constexpr uint64_t kFewLeaves = 8192;
  using Intents = IntentRecovery<C, TreeState<C>, PairWriter<C>>;

  using Separator = typename C::Separator;

  // Slots of a leaf whose keys are in the next leaf's range, to which they belong. Or the leaf is
  // marked by a merge that was cut short.
  struct Overlap {
    Mnode<C>* leaf;
    uint64_t slots;
  };
  // Neighbouring leaves that one task looks through.
  struct LeafRun {
    std::vector<Mnode<C>*> leaves;
    uint64_t keys = 0;
    std::vector<Overlap> overlaps;
    std::vector<SettleAtTouch::Stretch> stretches;  // by position in `leaves`
  };
  // recovery_at_once.cc
  bool StartsAtOnce() const;
  bool HasLogs() const;
  absl::Status FindFirst(pmem::Offset* first) const;
  absl::Status RunAtOnce();

  // recovery_leaves.cc
  absl::Status FindLeaves();
  absl::Status LookThrough();
  absl::Status LookThroughRun(size_t begin, size_t end, LeafRun* run);

  // recovery_log.cc
  // `mark_others` marks what is in use besides what leaves and logs name; after that everything
  // that is not marked is free.
  absl::Status ReplayLogs(absl::FunctionRef<absl::Status()> mark_others);

  // recovery.cc
  absl::Status ReadHorizon();
  absl::Status RunThroughLeaves();
  absl::Status ApplyIntents();
  void Mend();
  void ClearOverlaps();
  void BuildTree();
  void BeginSettling();

  static absl::Status Damaged(std::string_view what, pmem::Offset offset) {
    return DamagedPool("sptree", what, offset);
  }
  template <class Task>
  absl::Status Parallel(size_t tasks, Task task) {
    return RunTasks(tasks, context_.recovery_threads, task);
  }

  TreeState<C>& tree_;
  PairWriter<C>& writer_;
  pmem::Pool& pool_;
  pmem::Medium& medium_;
  const EngineContext& context_;
  RecoveryReport& report_;
  bool at_once_ = false;   // no leaf is touched before the first answer
  const bool settles_;     // stores to leaves may not have been flushed
  const Settler settler_;  // of the logs
  const LeafExaminer<C> examiner_;
  ChainWalk<Siblings> chain_;
  std::vector<LeafRun> runs_;                  // from left to right
  pmem::PerWorker<TextsOfThread> separators_;  // until they are the tree's
  Intents intents_;
};

}  // namespace lodgekv::sptree
