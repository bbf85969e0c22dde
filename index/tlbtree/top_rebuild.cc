#include "index/tlbtree/top_rebuild.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "index/node/epoch.h"
#include "index/node/recovery_tasks.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::tlbtree {

namespace {

// A step holds up the other tasks of the worker for some 50 us.
constexpr unsigned kAnchorsOfStep = 4096;
// A small array costs more to replace than to build.
constexpr uint64_t kLeastSteps = 256;
constexpr uint64_t kTracedSteps = 4;  // in the crash laboratory
constexpr uint64_t kFewDead = 16;     // anchors: their space can wait

}  // namespace

template <class C>
void TopRebuild<C>::NoteSteps(const typename C::Key& key, unsigned anchor_steps,
                              unsigned leaf_steps) const {
  constexpr size_t kMost = 16;
  tree_.sideways.fetch_add(anchor_steps, std::memory_order_relaxed);
  Worker& worker = tree_.workers.Current();
  worker.stepped_aside = true;
  worker.counters.Add(WorkerCounters::kSidewaysSteps, anchor_steps + leaf_steps);
  if (leaf_steps != 0 && worker.unlisted.size() < kMost) worker.unlisted.push_back(C::TextOf(key));
}

template <class C>
bool TopRebuild<C>::IsDue() const {
  const uint64_t rate = tree_.parameters.rebuild_steps;
  if (rate == 0) return false;
  const uint64_t entries = tree_.top.entries();
  const bool traced = tree_.medium.tracer() != nullptr;
  const uint64_t least = traced ? kTracedSteps : kLeastSteps;
  return tree_.sideways.load(std::memory_order_relaxed) >= std::max(least, rate * entries) ||
         (!tree_.touch.active() && tree_.top.dropped() > MostDead());
}

// For the sake of dead anchors one that came to nothing is tried again when an eighth more are so.
template <class C>
uint64_t TopRebuild<C>::MostDead() const {
  const uint64_t few = tree_.medium.tracer() != nullptr ? 1 : kFewDead;
  const uint64_t in_vain = tree_.dead_in_vain.load(std::memory_order_relaxed);
  return std::max({few, tree_.top.entries() / 8, in_vain + in_vain / 8});
}

template <class C>
void TopRebuild<C>::RequestIfDue() {
  if (IsDue()) Request();
}

template <class C>
void TopRebuild<C>::Request() {
  if (tree_.rebuild_posted.exchange(true)) return;
  absl::Cleanup not_posted = [this] { tree_.rebuild_posted.store(false); };
  auto work = std::make_shared<Work>();
  if (tree_.background.Post([&tree = tree_, work] { return Step(tree, *work); })) {
    std::move(not_posted).Cancel();
  }
}

template <class C>
absl::StatusOr<BackgroundWorker::Progress> TopRebuild<C>::Step(TreeState<C>& tree, Work& work) {
  if (!work.begun) {
    work.begun = true;
    work.at = tree.first_anchor();
    // The sweep stands at an anchor between its steps, and drops what it finds dead.
    work.dropped = tree.top.BeginRebuild(/*take_dropped=*/!tree.touch.active());
  }
  // However it ends, also by damage or lack of memory: the next one is due as late as after one
  // that succeeded.
  absl::Cleanup end = [&] {
    tree.sideways.store(0, std::memory_order_relaxed);
    const uint64_t dead = tree.top.dropped() + work.dropped.size();
    tree.dead_in_vain.store(work.replaced ? 0 : dead, std::memory_order_relaxed);
    tree.top.EndRebuild(std::move(work.dropped));
    tree.rebuild_posted.store(false);
  };
  if (absl::Status status = Collect(tree, work); !status.ok()) return status;
  if (work.at != 0) {
    std::move(end).Cancel();
    return BackgroundWorker::Progress::kMore;
  }
  Finish(tree, work);
  return BackgroundWorker::Progress::kDone;
}

// The next anchors. Those that are dead when the rebuild begins are freed at its end at the
// earliest, by this thread, so the one where a step stops is still there at the next.
template <class C>
absl::Status TopRebuild<C>::Collect(TreeState<C>& tree, Work& work) {
  const EpochGuard guard;
  const Descent<C> descent(tree);
  for (unsigned i = 0; i < kAnchorsOfStep && work.at != 0; ++i) {
    AnchorPlace place;
    if (!descent.ViewAnchor(work.at, &place)) {
      return DamagedPool("tlbtree", "a damaged anchor", work.at);
    }
    if (!place.view.root.dead) work.entries.push_back({work.at, place.view.low});
    work.at = place.view.next;
  }
  return absl::OkStatus();
}

template <class C>
void TopRebuild<C>::Finish(TreeState<C>& tree, Work& work) {
  LODGEKV_CRASH_POINT(tree.medium, "tlbtree.rebuild.1");
  work.replaced = tree.top.Replace(work.entries, tree.parameters.gaps);
  if (!work.replaced) return;
  LODGEKV_CRASH_POINT(tree.medium, "tlbtree.rebuild.2");
  const std::vector<pmem::Offset> dropped = std::exchange(work.dropped, {});
  tree.top.EndRebuild({});
  tree.workers.Current().counters.Add(WorkerCounters::kRebuilds);
  FreeDropped(tree, dropped);
}

// Nothing leads to them any more but what a reader has found.
template <class C>
void TopRebuild<C>::FreeDropped(TreeState<C>& tree, const std::vector<pmem::Offset>& dropped) {
  std::vector<pmem::Offset> records;
  for (const pmem::Offset anchor : dropped) {
    const media::Anchor& dead = *tree.AnchorAt(anchor);
    const Low low{dead.low.LoadRelaxed(), dead.low_meta.LoadRelaxed()};
    if (const pmem::Offset record = RecordOfLow<C>(low); record != 0) records.push_back(record);
    tree.reclaimer.RetireUnit(tree.anchors, anchor);
  }
  (void)tree.reclaimer.Drain(records);
}

template class TopRebuild<Fixed64Codec>;
template class TopRebuild<BytesCodec>;

}  // namespace lodgekv::tlbtree
