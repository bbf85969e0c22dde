// Recovery: the roots in the engine area and batches that were under way. Everything else is
// examined when it is touched first, by whoever comes there, or by the sweep (sweep.h).
#include <algorithm>
#include <chrono>

#include "index/node/epoch.h"
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
      : tree_(tree), writer_(writer), pool_(tree.pool), context_(context), report_(*report) {}

  absl::Status Run();

 private:
  absl::Status FindRoots();
  absl::Status MarkIntents();
  absl::Status DoIntents();
  Outcome DoIntent(const BatchIntents::Found& intent);
  void NoteGone(const BatchIntents::Found& intent, std::vector<pmem::Offset>* gone) const;
  absl::Status SweepSmall();

  TreeState<C>& tree_;
  PairWriter<C>& writer_;
  pmem::Pool& pool_;
  const EngineContext& context_;
  RecoveryReport& report_;
  std::vector<BatchIntents::Found> intents_;
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

// Until the intent is retired all its records are in use, wherever they are: a put's may be in its
// leaf already, a deleted pair's may be gone from it.
template <class C>
absl::Status Recovery<C>::MarkIntents() {
  auto found = tree_.intents.Find("tlbtree");
  if (!found.ok()) return found.status();
  intents_ = *std::move(found);
  if constexpr (C::kRecords) {
    for (const auto& intent : intents_) {
      for (const IntendedOp& op : intent.ops) {
        if (!tree_.codec.PairIsSound(op.pair)) {
          return Damaged("a damaged pair in the batch", intent.intent.body);
        }
        if (!C::IsRecord(op.pair.value)) continue;
        const pmem::Offset record = C::RecordOf(op.pair.value);
        RecordView view;
        if (!VerifyRecord(pool_, tree_.slab, record, &view)) {
          return Damaged("a damaged record of a batch", record);
        }
        (void)tree_.slab.Mark(record);
      }
    }
  }
  return absl::OkStatus();
}

// Doing it again does what was not done.
template <class C>
Outcome Recovery<C>::DoIntent(const BatchIntents::Found& intent) {
  GroupWrites<C, PairWriter<C>> writes(writer_);
  const Outcome outcome = writes.ApplyIntended(intent.ops);
  if (outcome != Outcome::kPoolFull || !tree_.rest.FinishNow()) return outcome;
  return writes.ApplyIntended(intent.ops);
}

// The records of pairs that the batch had deleted already: nothing else refers to them.
template <class C>
void Recovery<C>::NoteGone(const BatchIntents::Found& intent,
                           std::vector<pmem::Offset>* gone) const {
  if constexpr (C::kRecords) {
    const Lookups<C> lookups(tree_);
    const EpochGuard guard;
    for (const IntendedOp& op : intent.ops) {
      if (!op.remove || !C::IsRecord(op.pair.value)) continue;
      char scratch[8];
      const auto key = C::MakeKey(tree_.codec.KeyText(op.pair, scratch));
      uint64_t there = 0;
      const bool found = lookups.template FindValueWord<SearchByPointer>(key, &there);
      if (!found || there != op.pair.value) gone->push_back(C::RecordOf(op.pair.value));
    }
  }
}

template <class C>
absl::Status Recovery<C>::DoIntents() {
  if (tree_.medium.Canary("tlbtree.recovery.no_intents")) intents_.clear();
  std::vector<pmem::Offset> gone;
  for (auto& intent : intents_) {
    NoteGone(intent, &gone);
    const bool early = tree_.medium.Canary("tlbtree.recovery.retire_first");
    if (early) tree_.intents.Retire(intent.intent);
    const Outcome outcome = DoIntent(intent);
    if (outcome == Outcome::kPoolFull) {
      return absl::ResourceExhaustedError(
          "the pool is full: there is no leaf for a batch that was under way; nothing is lost");
    }
    if (outcome == Outcome::kDataLoss) {
      return Damaged("a damaged leaf on the way of the batch", intent.intent.body);
    }
    if (intent.applied_index.has_value()) tree_.applied.Raise(*intent.applied_index);
    if (!early) tree_.intents.Retire(intent.intent);
    report_.log_entries_replayed += intent.ops.size();
  }
  for (const pmem::Offset record : gone) tree_.slab.Free(record);
  Worker& worker = tree_.workers.Current();
  worker.retired.HandTo(tree_.reclaimer);
  return absl::OkStatus();
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
  if (status.ok()) status = MarkIntents();
  if (!status.ok()) return status;
  pool_.BeginUse();
  status = SweepSmall();
  if (!status.ok()) return status;
  tree_.space.set_reserve(pmem::ReservePolicy::kUse);
  status = DoIntents();
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
