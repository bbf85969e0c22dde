// Small parts of every engine's recovery: work on several threads and its progress, the message
// about damage, and the flushes that make what recovery believes durable.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "index/engine_info.h"
#include "index/pmem/pool.h"

namespace lodgekv {

inline absl::Status DamagedPool(std::string_view engine, std::string_view what,
                                pmem::Offset offset) {
  return absl::DataLossError(absl::StrCat(std::string(engine), ": ", std::string(what),
                                          " at offset ", offset,
                                          " of the pool; restore from a backup"));
}

// Runs task(i) for each i below `tasks` on at most `threads` threads, including the caller's; each
// of them has at least one task. Returns the first error; a thread that meets one starts no further
// task.
template <class Task>
absl::Status RunTasks(size_t tasks, unsigned threads, Task task) {
  const size_t count = std::min<size_t>(tasks, std::max(1u, threads));
  std::atomic<size_t> next{count};
  std::mutex mutex;
  absl::Status status;
  const auto work = [&](size_t first) {
    for (size_t i = first; i < tasks; i = next.fetch_add(1)) {
      const absl::Status result = task(i);
      if (result.ok()) continue;
      const std::lock_guard lock(mutex);
      status.Update(result);
      return;
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < count; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& thread : others) thread.join();
  return status;
}

// Begin and end of part `i`, when `count` things are divided into `parts` parts of about equal
// size.
struct Part {
  size_t begin;
  size_t end;
  static Part Of(size_t count, size_t parts, size_t i) {
    return {Border(count, parts, i), Border(count, parts, i + 1)};
  }

 private:
  static size_t Border(size_t count, size_t parts, size_t i) {
    return count / parts * i + count % parts * i / parts;
  }
};

// The number of parts of about `wanted` things each: at least one, at most `most`.
inline size_t PartsOf(size_t count, size_t wanted, size_t most = SIZE_MAX) {
  return std::clamp<size_t>((count + wanted - 1) / wanted, 1, most);
}

// The progress of a phase on which several threads work.
class PhaseProgress {
 public:
  // `total` 0: unknown.
  PhaseProgress(const RecoveryProgress& tell, std::string_view phase, uint64_t total)
      : tell_(tell), phase_(phase), total_(total) {}

  // Call this only now and then: the thread that reports keeps the others waiting as long as that
  // takes.
  void Add(uint64_t steps) {
    const uint64_t done = done_.fetch_add(steps, std::memory_order_relaxed) + steps;
    if (!tell_) return;
    const std::lock_guard lock(mutex_);
    told_ = std::max(told_, done);
    tell_(phase_, told_, total_);
  }

 private:
  const RecoveryProgress& tell_;
  const std::string_view phase_;
  const uint64_t total_;
  std::atomic<uint64_t> done_{0};
  std::mutex mutex_;
  uint64_t told_ = 0;
};

// After a kill without a power cut recovery sees stores that were never flushed. A later power cut
// must not undo what recovery believed: so recovery flushes that first.
class Settler {
 public:
  // `on` is false in a pool that was closed cleanly.
  Settler(pmem::Medium& medium, bool on) : medium_(medium), on_(on) {}

  void Settle(const void* address, size_t bytes) const {
    if (on_) medium_.Flush(address, bytes);
  }
  // Called by each thread that settled something, when it is done.
  void EndThread() const {
    if (on_) medium_.Fence();
  }

 private:
  pmem::Medium& medium_;
  const bool on_;
};

}  // namespace lodgekv
