#include "index/sptree/recovery.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "index/pmem/crash_point.h"
#include "index/sptree/leaf_walk.h"
#include "index/sptree/sptree.h"
#include "index/sptree/writes.h"

namespace lodgekv::sptree {

// --- what a crash has left ---

// What is seen may not be durable: that the next leaf has the pairs, and that this one leads there.
template <class C>
void Recovery<C>::Mend() {
  const bool flushes = settles_ && !medium_.Canary("sptree.recovery.mends_unsettled");
  bool any = false;
  for (size_t i = 0; i < runs_.size(); ++i) {
    LeafRun& run = runs_[i];
    if (i + 1 < runs_.size()) run.leaves.back()->right = runs_[i + 1].leaves.front();
    report_.keys += run.keys;
    report_.repairs += run.overlaps.size();
    any |= !run.overlaps.empty();
    for (const Overlap& overlap : run.overlaps) {
      if (!flushes) break;
      medium_.Flush(overlap.leaf->bnode, sizeof(media::Bnode));
      medium_.Flush(overlap.leaf->right->bnode, sizeof(media::Bnode));
    }
  }
  if (!any) return;
  if (flushes) medium_.Fence();
  ClearOverlaps();
}

template <class C>
void Recovery<C>::ClearOverlaps() {
  for (const LeafRun& run : runs_) {
    for (const Overlap& overlap : run.overlaps) {
      pmem::Word& bitmap = overlap.leaf->bnode->bitmap;
      medium_.Store(bitmap, bitmap.LoadRelaxed() & ~overlap.slots);
      medium_.FlushLine(&bitmap);
    }
  }
  LODGEKV_CRASH_POINT(medium_, "sptree.recovery.1");
  medium_.Fence();
}

template <class C>
void Recovery<C>::BuildTree() {
  separators_.ForEach([this](TextsOfThread& own) { tree_.dram.Take(own.arena); });
  std::vector<typename TopLayer<C>::Nodes> parents;
  for (LeafRun& run : runs_) parents.push_back(std::move(run.parents));
  tree_.top.BuildOver(std::move(parents), context_.recovery_threads);
}

// Little is gained by handing over a small tree, and too little space is left in a full pool.
template <class C>
void Recovery<C>::BeginSettling() {
  if (settles_) {
    std::vector<pmem::Offset> leaves;
    std::vector<SettleAtTouch::Stretch> stretches;
    for (LeafRun& run : runs_) {
      for (auto& stretch : run.stretches) {
        stretches.push_back({std::move(stretch.low), leaves.size() + stretch.first});
      }
      for (const Mnode<C>* leaf : run.leaves) leaves.push_back(pool_.OffsetOf(leaf->bnode));
    }
    const bool few = stretches.size() == 1;
    tree_.settling.Begin(std::move(leaves), std::move(stretches));
    if (!few && !pool_.tight()) return;
  }
  (void)tree_.rest.FinishNow();
}

// --- batches ---

// A put's record may be in its leaf already; a deleted pair's may be gone from it.
template <class C>
absl::Status Recovery<C>::MarkIntents() {
  auto found = tree_.intents.Find("sptree");
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
        const bool alone = tree_.slab.Mark(record) == pmem::UnitArena::MarkResult::kMarked;
        if (alone && op.remove) removed_records_.push_back(record);
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

template <class C>
absl::Status Recovery<C>::DoIntents() {
  if (medium_.Canary("sptree.recovery.no_intents")) intents_.clear();
  for (auto& intent : intents_) {
    const bool early = medium_.Canary("sptree.recovery.retire_first");
    if (early) tree_.intents.Retire(intent.intent);
    const Outcome outcome = DoIntent(intent);
    if (outcome == Outcome::kPoolFull) {
      return absl::ResourceExhaustedError(
          "the pool is full: there is no leaf for a batch that was under way; nothing is lost");
    }
    if (intent.applied_index.has_value()) tree_.applied.Raise(*intent.applied_index);
    if (!early) tree_.intents.Retire(intent.intent);
    report_.log_entries_replayed += intent.ops.size();
  }
  for (const pmem::Offset record : removed_records_) tree_.slab.Free(record);
  Worker& worker = tree_.workers.Current();
  worker.retired.HandTo(tree_.reclaimer);
  return absl::OkStatus();
}

template <class C>
absl::Status Recovery<C>::Run() {
  const auto start = std::chrono::steady_clock::now();
  report_.clean = pool_.was_clean();
  report_.threads = std::max(1u, context_.recovery_threads);
  tree_.bnodes.Adopt(pool_.Chunks());
  tree_.slab.Adopt();
  absl::Status status = FindLeaves();
  if (status.ok()) status = LookThrough();
  if (status.ok()) status = MarkIntents();
  if (status.ok()) status = pool_.contents().FinishVerify();
  if (!status.ok()) return status;
  Mend();
  BuildTree();
  BeginSettling();
  tree_.space.set_reserve(pmem::ReservePolicy::kUse);
  status = DoIntents();
  if (!status.ok()) return status;
  tree_.space.set_reserve(pmem::ReservePolicy::kKeep);
  if (!intents_.empty()) report_.keys = LeafWalk<C>(tree_).CountKeys();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report_.milliseconds = took.count();
  tree_.rest.Start(report_, start, context_.on_recovery_end);
  return absl::OkStatus();
}

template <class C>
absl::StatusOr<std::unique_ptr<Engine>> SpTree<C>::Recover(const EngineContext& context,
                                                           RecoveryReport* report) {
  std::unique_ptr<SpTree> engine(new SpTree(context));
  const absl::Status status =
      Recovery<C>(engine->tree_, engine->pair_writer_, context, report).Run();
  if (!status.ok()) return status;
  return engine;
}

template class Recovery<Fixed64Codec>;
template class Recovery<BytesCodec>;
template class SpTree<Fixed64Codec>;
template class SpTree<BytesCodec>;

}  // namespace lodgekv::sptree
