#include "index/node/settle_at_touch.h"

#include <algorithm>
#include <utility>

#include "index/node/version_lock.h"

namespace lodgekv {

namespace {

// Settling a stretch takes some 50 us: a first touch is not felt, and few of them wait for a fence.
constexpr size_t kStretchLeaves = 256;
// In the crash laboratory, whose trees have a few leaves.
constexpr size_t kTracedStretchLeaves = 1;

}  // namespace

SettleAtTouch::SettleAtTouch(pmem::Pool& pool, size_t leaf_bytes, size_t reach)
    : pool_(pool),
      leaf_bytes_(leaf_bytes),
      reach_(pool.medium().Canary("node.settle.no_reach") ? 0 : reach + 1),
      stretch_leaves_(pool.medium().tracer() != nullptr ? kTracedStretchLeaves : kStretchLeaves) {}

void SettleAtTouch::Begin(std::vector<pmem::Offset> leaves, std::vector<Stretch> stretches) {
  auto work = std::make_shared<Work>();
  work->leaves = std::move(leaves);
  work->stretches = std::move(stretches);
  work->settled = std::make_unique<std::atomic<bool>[]>(work->stretches.size());
  const std::lock_guard lock(mutex_);
  work_ = std::move(work);
  unfinished_.store(true, std::memory_order_release);
}

std::shared_ptr<SettleAtTouch::Work> SettleAtTouch::Current() const {
  const std::lock_guard lock(mutex_);
  return work_;
}

void SettleAtTouch::Touch(std::string_view key) const {
  const auto work = Current();
  if (work == nullptr || pool_.medium().Canary("node.settle.no_touch")) return;
  const auto above =
      std::upper_bound(work->stretches.begin() + 1, work->stretches.end(), key,
                       [](std::string_view k, const Stretch& stretch) { return k < stretch.low; });
  SettleUpTo(*work, static_cast<size_t>(above - work->stretches.begin()) - 1);
}

// The stretch, and those before it that have one of the `reach_` leaves before its first one.
void SettleAtTouch::SettleUpTo(Work& work, size_t stretch) const {
  const size_t first = work.stretches[stretch].first;
  const size_t reached = first - std::min(first, reach_);
  size_t begin = stretch;
  while (begin > 0 && work.End(begin - 1) > reached) --begin;
  (void)SettleRange(work, begin, stretch + 1);
}

// Flushing a leaf again does no harm, so nobody waits for another thread that has begun the same.
bool SettleAtTouch::SettleRange(Work& work, size_t begin, size_t end) const {
  const size_t less = pool_.medium().Canary("node.settle.no_neighbour") ? 1 : 0;
  const auto is_settled = [&](size_t i) { return work.settled[i].load(std::memory_order_acquire); };
  bool flushed = false;
  for (size_t i = begin; i < end; ++i) {
    if (is_settled(i)) continue;
    flushed = true;
    // With the leaf after it.
    const size_t last = std::min(work.End(i), work.leaves.size() - 1);
    for (size_t n = work.stretches[i].first; n + less <= last; ++n) {
      pool_.medium().Flush(pool_.At<char>(work.leaves[n]), leaf_bytes_);
    }
  }
  if (!flushed) return true;
  pool_.medium().Fence();
  if (pool_.medium().failed()) return false;
  for (size_t i = begin; i < end; ++i) {
    if (!work.settled[i].exchange(true, std::memory_order_acq_rel)) {
      work.done.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return true;
}

bool SettleAtTouch::SettleSome(size_t count) {
  const auto work = Current();
  if (work == nullptr) return false;
  const size_t all = work->stretches.size();
  const size_t begin = work->next.fetch_add(count, std::memory_order_relaxed);
  if (begin >= all) return false;
  return SettleRange(*work, begin, std::min(begin + count, all));
}

// Waits for those that are still in a Touch: each waits for its own fence, and for nobody.
void SettleAtTouch::End() {
  unfinished_.store(false, std::memory_order_release);
  std::shared_ptr<Work> work;
  {
    const std::lock_guard lock(mutex_);
    work = std::move(work_);
  }
  for (Backoff backoff; work.use_count() > 1; backoff.Pause()) {
  }
}

absl::Status SettleAtTouch::status() const {
  return pool_.medium().failed() ? absl::UnavailableError("a sync of the medium has failed")
                                 : absl::OkStatus();
}

RecoverySweep::Progress SettleAtTouch::progress() const {
  const auto work = Current();
  if (work == nullptr) return {};
  return {work->done.load(std::memory_order_relaxed), work->stretches.size()};
}

}  // namespace lodgekv
