// What recovery leaves to the background: a sweep (recovery_sweep.h), such as settling the leaves
// that nobody has touched, and then the space that nobody owns, which is allocated from then on
// (unit_arena.h). Until its end writes take fresh chunks; one that finds none does the rest itself.
//
// The work is a task of the engine's BackgroundWorker. Where that runs tasks in place (the crash
// laboratory), each write does one step, so that operations come between them there as well.
//
// Invariant: all is settled before any chunk is finished.
//
// Thread-safe, except Start.
#pragma once

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "index/node/background_worker.h"
#include "index/node/recovery_sweep.h"
#include "index/pmem/record_slab.h"
#include "index/pmem/unit_arena.h"
#include "index/recovery_state.h"

namespace lodgekv {

class RestOfRecovery {
 public:
  // `arenas`: all of the tree but those of `records`.
  RestOfRecovery(pmem::Pool& pool, RecoverySweep& settling, std::vector<pmem::UnitArena*> arenas,
                 pmem::RecordSlab& records, BackgroundWorker& worker)
      : pool_(pool),
        settling_(settling),
        arenas_(std::move(arenas)),
        records_(records),
        worker_(worker) {}
  // Stops the worker, whose task uses this.
  ~RestOfRecovery() { worker_.Stop(); }
  RestOfRecovery(const RestOfRecovery&) = delete;
  RestOfRecovery& operator=(const RestOfRecovery&) = delete;

  // Does all of it now: for a pool that was closed cleanly, or has little space left, and by a
  // write in a pool without fresh chunks, and by Close. False: there is nothing to be gained by it.
  // Does not wait for epochs, so it may be called inside an EpochGuard and under locks.
  bool FinishNow();
  // Leaves it to the background, if anything is left. `recovery` is the report of what was done
  // before, `begin` when that began; `on_end` may be empty (EngineContext::on_recovery_end).
  void Start(const RecoveryReport& recovery, std::chrono::steady_clock::time_point begin,
             RecoveryEnd on_end);
  // A step, where the worker runs tasks in place and anything is left. Called with each write.
  void StepInPlace();

  // Until the first call of FinishNow, or the last step, has returned.
  bool unfinished() const { return settling_.unfinished() || pool_.finding_space(); }
  RecoveryState state() const;

 private:
  absl::StatusOr<BackgroundWorker::Progress> Step();
  bool Advance(size_t stretches, size_t chunks);
  void FinishChunks(size_t count);
  void End(std::unique_lock<std::mutex>& lock);

  pmem::Pool& pool_;
  RecoverySweep& settling_;
  const std::vector<pmem::UnitArena*> arenas_;
  pmem::RecordSlab& records_;
  BackgroundWorker& worker_;
  mutable std::mutex mutex_;
  // Under the mutex:
  bool ended_ = false;
  bool in_background_ = false;
  absl::Status error_;
  RecoveryReport report_;
  std::chrono::steady_clock::time_point begin_;
  RecoveryEnd on_end_;
};

}  // namespace lodgekv
