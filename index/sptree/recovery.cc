#include "index/sptree/recovery.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "index/pmem/crash_point.h"
#include "index/sptree/lookups.h"
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
      const Mnode<C>* right = overlap.leaf->right;
      medium_.Flush(overlap.leaf->bnode, sizeof(media::Bnode));
      if (right != nullptr) medium_.Flush(right->bnode, sizeof(media::Bnode));
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
      StoreMended(medium_, *overlap.leaf->bnode, overlap.slots);
    }
  }
  LODGEKV_CRASH_POINT(medium_, "sptree.recovery.1");
  medium_.Fence();
}

template <class C>
void Recovery<C>::BuildTree() {
  separators_.ForEach([this](TextsOfThread& own) { tree_.dram.Take(own.arena); });
  std::vector<Mnode<C>*> all;
  all.reserve(chain_.size());
  for (const LeafRun& run : runs_) all.insert(all.end(), run.leaves.begin(), run.leaves.end());
  tree_.top.Build(all, context_.recovery_threads);
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

template <class C>
absl::Status Recovery<C>::ReadHorizon() {
  const pmem::Word& word = pool_.engine_area()[media::kFencedBelow];
  uint64_t fenced_below;
  if (!ReadChecked(word.Load(), &fenced_below)) {
    return Damaged("a word of the engine area with wrong check bits", pool_.OffsetOf(&word));
  }
  tree_.horizon.Restore(fenced_below);
  return absl::OkStatus();
}

template <class C>
absl::Status Recovery<C>::RunThroughLeaves() {
  report_.threads = std::max(1u, context_.recovery_threads);
  absl::Status status = FindLeaves();
  if (status.ok()) status = LookThrough();
  if (status.ok()) status = pool_.contents().FinishVerify();
  if (!status.ok()) return status;
  Mend();
  BuildTree();
  // If this was needed although there are many leaves, the next start should do without it.
  tree_.backup.Forget(/*renew=*/chain_.size() > kFewLeaves);
  // A batch may name the record of a pair that only the log has.
  status = ReplayLogs([this] {
    const absl::Status marked = intents_.Mark(Intents::LeavesMarked::kBefore);
    if (marked.ok()) BeginSettling();
    return marked;
  });
  return status;
}

template <class C>
absl::Status Recovery<C>::ApplyIntents() {
  tree_.space.set_reserve(pmem::ReservePolicy::kUse);
  const Lookups<C> lookups(tree_);
  const absl::Status status = intents_.Apply(&report_, [&](const auto& intent) {
    if (at_once_) intents_.NoteGone(intent, lookups);
  });
  tree_.space.set_reserve(pmem::ReservePolicy::kKeep);
  return status;
}

template <class C>
absl::Status Recovery<C>::RunAll() {
  const auto start = std::chrono::steady_clock::now();
  report_.clean = pool_.was_clean();
  tree_.bnodes.Adopt(pool_.Chunks());
  tree_.log.Adopt(pool_.Chunks());
  tree_.slab.Adopt();
  absl::Status status = ReadHorizon();
  if (!status.ok()) return status;
  tree_.backup.Recover("sptree");
  at_once_ = StartsAtOnce();
  status = at_once_ ? RunAtOnce() : RunThroughLeaves();
  if (status.ok()) status = ApplyIntents();
  if (!status.ok()) return status;
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
      Recovery<C>(engine->tree_, engine->pair_writer_, context, report).RunAll();
  if (!status.ok()) return status;
  return engine;
}

template class Recovery<Fixed64Codec>;
template class Recovery<BytesCodec>;
template class SpTree<Fixed64Codec>;
template class SpTree<BytesCodec>;

}  // namespace lodgekv::sptree
