// Whether the pool accepts puts, and the log lines about it: one when it is full, one when there is
// space again. Near the limit these may alternate quickly, so the lines are limited in rate; the
// latest state is logged with the first write after the pause.
//
// INVARIANT  Full from a write that is refused for lack of space until a put is applied. What a
//            delete frees may be too little for a put, or in the wrong place: while puts are still
//            refused it changes nothing. Only if none was for a while, and something was deleted
//            since, does the pool count as having room again; so a pool that nobody puts into any
//            more does not count as full for ever.
// Thread safety: all methods at any time.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <span>

#include "index/engine.h"

namespace lodgekv::server {

class PoolFullness {
 public:
  using Clock = std::chrono::steady_clock;

  // `pace` is the least time between two lines, `quiet` the while after a refusal.
  explicit PoolFullness(Clock::duration pace = std::chrono::seconds(10),
                        Clock::duration quiet = std::chrono::minutes(1))
      : pace_(pace), quiet_(quiet) {}

  // A write, or a whole batch with one outcome.
  void NoteWrites(Outcome outcome, std::span<const WriteOp> ops,
                  std::span<const WriteResult> results) {
    if (outcome == Outcome::kPoolFull) return NoteRefused();
    const bool matters =
        full_.load(std::memory_order_relaxed) || logged_full_.load(std::memory_order_relaxed);
    if (outcome == Outcome::kOk && matters) NoteApplied(ops, results);
  }

  bool full() const {
    return full_.load(std::memory_order_relaxed) &&
           !(freed_.load(std::memory_order_relaxed) && QuietFor(quiet_));
  }

 private:
  void NoteRefused();
  void NoteApplied(std::span<const WriteOp> ops, std::span<const WriteResult> results);
  bool QuietFor(Clock::duration time) const;
  void Set(bool full);

  const Clock::duration pace_;
  const Clock::duration quiet_;
  std::atomic<bool> full_{false};
  std::atomic<Clock::rep> refused_{0};    // last time, in the clock's unit
  std::atomic<bool> freed_{false};        // since then, by deletes
  std::atomic<bool> logged_full_{false};  // as last logged
  std::mutex mutex_;
  Clock::time_point next_line_;  // guarded by mutex_
};

}  // namespace lodgekv::server
