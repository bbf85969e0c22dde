#include "index/node/rest_of_recovery.h"

#include <algorithm>
#include <utility>

namespace lodgekv {

namespace {

// A step takes a few milliseconds, one fence, and holds the other tasks up for that long.
constexpr size_t kStretchesOfStep = 16;
constexpr size_t kChunksOfStep = 16;
constexpr size_t kAll = SIZE_MAX;

}  // namespace

// Under the mutex. False: nothing is left.
bool RestOfRecovery::Advance(size_t stretches, size_t chunks) {
  if (settling_.unfinished() && !pool_.medium().Canary("node.settle.space_first")) {
    if (settling_.SettleSome(stretches)) return true;
    error_ = settling_.status();
    if (!error_.ok()) return false;
    settling_.End();
    settling_.AddTo(&report_);
  }
  FinishChunks(chunks);
  return pool_.finding_space();
}

// Large objects have no list of their own: they come with the last chunks.
void RestOfRecovery::FinishChunks(size_t count) {
  size_t left = count;
  for (pmem::UnitArena* arena : arenas_) {
    for (const pmem::Chunk& chunk : arena->UnfinishedChunks()) {
      if (left-- == 0) return;
      arena->FinishMark(chunk);
    }
  }
  for (const pmem::Chunk& chunk : records_.UnfinishedChunks()) {
    if (left-- == 0) return;
    records_.FinishMark(chunk);
  }
  records_.FinishLarge();
}

// True also for who has waited for another thread that did it. Between two steps others may ask for
// the state.
bool RestOfRecovery::FinishNow() {
  if (!unfinished()) return false;
  for (;;) {
    std::unique_lock lock(mutex_);
    if (ended_) return error_.ok();
    if (Advance(kStretchesOfStep, kAll)) continue;
    const bool done = error_.ok();
    End(lock);
    return done;
  }
}

// The mutex is released: `on_end_` is the caller's code.
void RestOfRecovery::End(std::unique_lock<std::mutex>& lock) {
  ended_ = true;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin_;
  report_.milliseconds = took.count();
  const RecoveryEnd on_end = std::exchange(on_end_, nullptr);
  lock.unlock();
  if (on_end) on_end(state());
}

void RestOfRecovery::Start(const RecoveryReport& recovery,
                           std::chrono::steady_clock::time_point begin, RecoveryEnd on_end) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || !unfinished()) return;
    report_ = recovery;
    begin_ = begin;
    on_end_ = std::move(on_end);
    in_background_ = true;
  }
  if (!worker_.in_place()) worker_.Post([this] { return Step(); });
}

absl::StatusOr<BackgroundWorker::Progress> RestOfRecovery::Step() {
  std::unique_lock lock(mutex_);
  if (ended_) return BackgroundWorker::Progress::kDone;
  if (Advance(kStretchesOfStep, kChunksOfStep)) return BackgroundWorker::Progress::kMore;
  const absl::Status error = error_;
  End(lock);
  if (!error.ok()) return error;
  return BackgroundWorker::Progress::kDone;
}

void RestOfRecovery::StepInPlace() {
  if (!worker_.in_place() || !unfinished()) return;
  std::unique_lock lock(mutex_);
  if (!ended_ && !Advance(1, 1)) End(lock);
}

RecoveryState RestOfRecovery::state() const {
  const std::lock_guard lock(mutex_);
  RecoveryState state;
  if (!in_background_) return state;
  state.finished = ended_;
  state.error = error_;
  if (ended_) {
    if (error_.ok()) state.report = report_;
    return state;
  }
  const RecoverySweep::Progress progress = settling_.progress();
  state.phase = settling_.unfinished() ? std::string(settling_.phase()) : "free space";
  state.done = progress.done;
  state.total = progress.total;
  return state;
}

}  // namespace lodgekv
