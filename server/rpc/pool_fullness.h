// Whether the pool accepts puts, and the log lines about it: one when it is full, one when there is
// space again. Near the limit these may alternate quickly, so the lines are limited in rate; the
// latest state is logged with the first write after the pause.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

namespace lodgekv::server {

class PoolFullness {
 public:
  explicit PoolFullness(std::chrono::milliseconds pace = std::chrono::seconds(10)) : pace_(pace) {}

  // A write was refused for lack of space.
  void NoteFull() { Set(true); }
  // A write was applied.
  void NoteApplied() {
    if (full_.load(std::memory_order_relaxed) || logged_full_.load(std::memory_order_relaxed))
      Set(false);
  }

  bool full() const { return full_.load(std::memory_order_relaxed); }

 private:
  void Set(bool full);

  const std::chrono::milliseconds pace_;
  std::atomic<bool> full_{false};
  std::atomic<bool> logged_full_{false};  // as last logged
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_line_;  // guarded by mutex_
};

}  // namespace lodgekv::server
