// The state that services, metrics and lifecycle share: the phase of the server, its store, and the
// work in flight.
//
// INVARIANT  The phase goes from recovering to serving to draining, or from recovering to draining,
//            never back. store() is set before the phase becomes serving, and stays set until no
//            service runs any more. References from config() and limits() stay valid and unchanged:
//            a reload makes a new object.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "index/store.h"
#include "server/base/clock.h"
#include "server/base/connection_table.h"
#include "server/config/config.h"
#include "server/rpc/admission.h"
#include "server/rpc/pool_fullness.h"
#include "server/rpc/request_check.h"

namespace lodgekv::server {

enum class Phase { kRecovering, kServing, kDraining };

struct Progress {
  std::string phase;
  uint64_t done = 0;
  uint64_t total = 0;
};

class ServerState {
 public:
  ServerState(const Config& config, const Clock& clock)
      : clock_(clock), admission_(config.RequestLimits()) {
    Adopt(config);
  }

  // Makes this the current configuration. Only by one thread at a time.
  void Adopt(const Config& config);

  // From recovering to serving. Does not change the phase if draining has begun.
  void Serve(Store& store);
  void Drain() { phase_.store(Phase::kDraining, std::memory_order_release); }

  Phase phase() const { return phase_.load(std::memory_order_acquire); }
  Store* store() const { return store_.load(std::memory_order_acquire); }
  // The features of the open pool.
  const PoolFeatures& pool() const { return pool_; }
  // A fence of it may wait for a disk.
  bool long_fences() const { return long_fences_; }

  const Config& config() const { return settings_.load(std::memory_order_acquire)->config; }
  const Limits& limits() const { return settings_.load(std::memory_order_acquire)->limits; }
  const Clock& clock() const { return clock_; }
  ConnectionTable& connections() { return connections_; }
  const ConnectionTable& connections() const { return connections_; }
  Admission& admission() { return admission_; }
  const Admission& admission() const { return admission_; }

  void NoteSessionBegun() { sessions_.fetch_add(1, std::memory_order_relaxed); }
  void NoteSessionEnded() { sessions_.fetch_sub(1, std::memory_order_relaxed); }
  uint64_t sessions() const { return sessions_.load(std::memory_order_relaxed); }

  // A write, or a whole batch with one outcome: Status reports the pool as full while puts are
  // refused for lack of space (pool_fullness.h).
  void NoteWrites(Outcome outcome, std::span<const WriteOp> ops,
                  std::span<const WriteResult> results) {
    fullness_.NoteWrites(outcome, ops, results);
  }
  bool pool_full() const { return fullness_.full(); }

  // The pool's files are lost: from now on no call is answered OK.
  void NotePoolGone() { pool_gone_.store(true, std::memory_order_release); }
  bool pool_gone() const { return pool_gone_.load(std::memory_order_acquire); }

  void SetProgress(Progress progress);
  Progress progress() const;

  std::chrono::steady_clock::duration Uptime() const {
    return std::chrono::steady_clock::now() - started_;
  }
  uint64_t started_unix_ms() const { return started_unix_ms_; }

 private:
  struct Settings {
    Config config;
    Limits limits;
  };

  // Earlier ones are kept for threads that still read them: a few hundred bytes for each reload
  // that changed something.
  std::vector<std::unique_ptr<const Settings>> all_settings_;
  std::atomic<const Settings*> settings_{nullptr};
  const MonotoneClock clock_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  const uint64_t started_unix_ms_ = clock_.NowUnixMs();
  std::atomic<Phase> phase_{Phase::kRecovering};
  std::atomic<Store*> store_{nullptr};
  PoolFeatures pool_;
  bool long_fences_ = false;
  Admission admission_;
  ConnectionTable connections_;
  PoolFullness fullness_;
  std::atomic<bool> pool_gone_{false};
  std::atomic<uint64_t> sessions_{0};  // open ones
  mutable std::mutex mutex_;
  Progress progress_;  // guarded by mutex_
};

}  // namespace lodgekv::server
