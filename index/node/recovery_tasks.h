// Small parts of every engine's recovery: work on several threads and how far it is, the message
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

// Runs task(i) for each i below `tasks` on at most `threads` threads, the caller's included; each
// of them has one task at least. Returns the first error; a thread that meets one begins nothing
// more.
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

// Begin and end of part `i` of `count` things in `parts` parts of about the same size.
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

// How many parts of about `wanted` things each, one at least, `most` at most.
inline size_t PartsOf(size_t count, size_t wanted, size_t most = SIZE_MAX) {
  return std::clamp<size_t>((count + wanted - 1) / wanted, 1, most);
}

// How far a phase is, of which several threads do their parts.
class PhaseProgress {
 public:
  // `total` 0: it is not known.
  PhaseProgress(const RecoveryProgress& tell, std::string_view phase, uint64_t total)
      : tell_(tell), phase_(phase), total_(total) {}

  // Now and then: whoever tells keeps the others waiting no longer than that takes.
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

// After a kill without a power cut recovery sees stores that were never flushed. A power cut that
// comes later must not take back what it believed: so it flushes that first.
class Settler {
 public:
  // `on` is false in a pool that was closed cleanly.
  Settler(pmem::Medium& medium, bool on) : medium_(medium), on_(on) {}

  void Settle(const void* address, size_t bytes) const {
    if (on_) medium_.Flush(address, bytes);
  }
  // By each thread that settled something, when it has ended.
  void EndThread() const {
    if (on_) medium_.Fence();
  }

 private:
  pmem::Medium& medium_;
  const bool on_;
};

}  // namespace lodgekv
