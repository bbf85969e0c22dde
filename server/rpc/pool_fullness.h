// Whether the pool takes puts, and the lines of the log about it: one when it is full, one when
// there is room again. At the edge the two may follow each other quickly, so that lines keep a
// pace; the latest of them is told with the first write that the pace allows.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

namespace lodgekv::server {

class PoolFullness {
 public:
  explicit PoolFullness(std::chrono::milliseconds pace = std::chrono::seconds(10)) : pace_(pace) {}

  // A write was refused for want of room.
  void NoteFull() { Set(true); }
  // A write was applied.
  void NoteApplied() {
    if (full_.load(std::memory_order_relaxed) || told_.load(std::memory_order_relaxed)) Set(false);
  }

  bool full() const { return full_.load(std::memory_order_relaxed); }

 private:
  void Set(bool full);

  const std::chrono::milliseconds pace_;
  std::atomic<bool> full_{false};
  std::atomic<bool> told_{false};  // what the log said last
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_line_;  // guarded by mutex_
};

}  // namespace lodgekv::server
