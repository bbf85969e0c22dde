#include "index/sptree/sweep.h"

#include <algorithm>

#include "index/node/epoch.h"
#include "index/node/optimistic_section.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

namespace {
constexpr size_t kBinsAhead = 4;
}  // namespace

template <class C>
void Sweep<C>::Begin() {
  phase_ = Phase::kLeaves;
  from_ = C::TextOf(C::MinusInfinity());
  active_.store(true, std::memory_order_release);
}

template <class C>
bool Sweep<C>::unfinished() const {
  return active_.load(std::memory_order_acquire) || tree_.settling.unfinished();
}

template <class C>
bool Sweep<C>::SettleSome(size_t count) {
  if (phase_ == Phase::kNone) return tree_.settling.SettleSome(count);
  for (size_t i = 0; i < count; ++i) {
    if (!status_.ok() || !Step()) return false;
  }
  return true;
}

template <class C>
bool Sweep<C>::Step() {
  switch (phase_) {
    case Phase::kLeaves: return StepLeaves();
    case Phase::kChunks: return StepChunks();
    case Phase::kNone:
    case Phase::kDone: break;
  }
  return false;
}

// A gap is opened at its front; a leaf has been touched.
template <class C>
bool Sweep<C>::StepLeaves() {
  const EpochGuard guard;
  uint64_t snapshot;
  Mnode<C>* at = tree_.top.FindOrGap(C::MakeKey(from_), &snapshot);
  bool gap;
  bool bounded;
  std::string high;
  {
    const OptimisticSection section;
    gap = at->gap;
    bounded = at->bounded();
    if (!gap && bounded) high = C::TextOf(at->high);
    if (!at->lock.Validate(snapshot)) return true;
  }
  if (gap) {
    tree_.pending_log.Prepare(C::MakeKey(from_), kBinsAhead);
    if (tree_.first_touch.OpenFront(at, snapshot)) return true;
    status_ = tree_.first_touch.status();
    return false;
  }
  if (bounded) {
    from_ = std::move(high);
    tree_.pending_log.ForgetBelow(C::MakeKey(from_));
    return true;
  }
  status_ = tree_.pending_log.End();
  phase_ = Phase::kChunks;
  return status_.ok();
}

template <class C>
bool Sweep<C>::StepChunks() {
  if (VerifySome(tree_.pool.contents(), &status_)) return true;
  phase_ = Phase::kDone;
  return false;
}

template <class C>
void Sweep<C>::End() {
  if (phase_ == Phase::kNone) return tree_.settling.End();
  tree_.backup.KeepUnmarked();
  active_.store(false, std::memory_order_release);
}

template <class C>
auto Sweep<C>::progress() const -> Progress {
  if (!active_.load(std::memory_order_acquire)) return tree_.settling.progress();
  const uint64_t total = tree_.bnodes.total_units();
  return {std::min(tree_.first_touch.leaves(), total), total};
}

template <class C>
absl::Status Sweep<C>::status() const {
  return phase_ == Phase::kNone ? tree_.settling.status() : status_;
}

template <class C>
std::string_view Sweep<C>::phase() const {
  return active_.load(std::memory_order_acquire) ? "sweep" : tree_.settling.phase();
}

template <class C>
void Sweep<C>::AddTo(RecoveryReport* report) const {
  if (phase_ == Phase::kNone) return;
  report->leaves_scanned = tree_.first_touch.leaves();
  report->keys = tree_.first_touch.keys();
  report->repairs += tree_.first_touch.repairs();
  report->log_entries_replayed += tree_.pending_log.taken();
}

template class Sweep<Fixed64Codec>;
template class Sweep<BytesCodec>;

}  // namespace lodgekv::sptree
