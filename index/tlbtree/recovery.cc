// Recovery: the roots in the engine area and batches that were under way. Everything else is
// examined when it is touched first, by whoever comes there, or by the sweep (sweep.h).
#include <algorithm>
#include <chrono>

#include "index/node/intent_recovery.h"
#include "index/node/recovery_tasks.h"
#include "index/pmem/crash_point.h"
#include "index/tlbtree/lookups.h"
#include "index/tlbtree/tlbtree.h"
#include "index/tlbtree/top_rebuild.h"
#include "index/tlbtree/writes.h"

namespace lodgekv::tlbtree {

namespace {

absl::Status Damaged(std::string_view what, pmem::Offset offset) {
  return DamagedPool("tlbtree", what, offset);
}

// One recovery. It belongs to the thread that opens the pool.
//
// INVARIANT: until the sweep has ended nothing is allocated but in fresh chunks.
template <class C>
class Recovery {
 public:
  Recovery(TreeState<C>& tree, PairWriter<C>& writer, const EngineContext& context,
           RecoveryReport* report)
      : tree_(tree),
        pool_(tree.pool),
        context_(context),
        report_(*report),
        intents_("tlbtree", tree, writer) {}

  absl::Status Run();

 private:
  using Intents = IntentRecovery<C, TreeState<C>, PairWriter<C>>;

  absl::Status FindRoots();
  absl::Status SweepSmall();

  TreeState<C>& tree_;
  pmem::Pool& pool_;
  const EngineContext& context_;
  RecoveryReport& report_;
  Intents intents_;
};

template <class C>
absl::Status Recovery<C>::FindRoots() {
  const pmem::Word& first = pool_.engine_area()[media::kFirstAnchor];
  pmem::Offset anchor;
  if (!ReadChecked(first.Load(), &anchor) || !tree_.anchors.IsUnit(anchor)) {
    return Damaged("a first anchor that is none", pool_.OffsetOf(&first));
  }
  return tree_.top.Recover("tlbtree");
}

// Little is gained by leaving a small tree to the background, and a full pool has too little space.
template <class C>
absl::Status Recovery<C>::SweepSmall() {
  constexpr uint64_t kFewNodes = 8192;
  const bool traced = tree_.medium.tracer() != nullptr && !report_.clean;
  const bool few = tree_.nodes.total_units() <= kFewNodes && !traced;
  if (!few && !pool_.tight()) return absl::OkStatus();
  (void)tree_.rest.FinishNow();
  tree_.sweep.AddTo(&report_);
  return tree_.sweep.status();
}

template <class C>
absl::Status Recovery<C>::Run() {
  const auto start = std::chrono::steady_clock::now();
  report_.clean = pool_.was_clean();
  report_.threads = 1;
  tree_.nodes.Adopt(pool_.Chunks());
  tree_.anchors.Adopt(pool_.Chunks());
  tree_.slab.Adopt();
  tree_.touch.Begin(!pool_.was_clean());
  tree_.sweep.Begin();
  absl::Status status = FindRoots();
  if (status.ok()) status = intents_.Mark(Intents::LeavesMarked::kLater);
  if (!status.ok()) return status;
  pool_.BeginUse();
  status = SweepSmall();
  if (!status.ok()) return status;
  tree_.space.set_reserve(pmem::ReservePolicy::kUse);
  const Lookups<C> lookups(tree_);
  status =
      intents_.Apply(&report_, [&](const auto& intent) { intents_.NoteGone(intent, lookups); });
  if (!status.ok()) return status;
  tree_.space.set_reserve(pmem::ReservePolicy::kKeep);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report_.milliseconds = took.count();
  tree_.rest.Start(report_, start, context_.on_recovery_end);
  if (tree_.top.lost()) TopRebuild<C>(tree_).Request();
  return absl::OkStatus();
}

}  // namespace

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> TlbTree<C>::Recover(const EngineContext& context,
                                                            RecoveryReport* report) {
  std::unique_ptr<TlbTree> engine(new TlbTree(context));
  const absl::Status status =
      Recovery<C>(engine->tree_, engine->pair_writer_, context, report).Run();
  if (!status.ok()) return status;
  return engine;
}

template class TlbTree<Fixed64Codec>;
template class TlbTree<BytesCodec>;

}  // namespace lodgekv::tlbtree
