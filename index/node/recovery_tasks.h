// Small parts of every engine's recovery: work on several threads, the message about damage, and
// the flushes that make what recovery believes durable.
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
#include "index/pmem/pool.h"

namespace lodgekv {

inline absl::Status DamagedPool(std::string_view engine, std::string_view what,
                                pmem::Offset offset) {
  return absl::DataLossError(absl::StrCat(std::string(engine), ": ", std::string(what),
                                          " at offset ", offset,
                                          " of the pool; restore from a backup"));
}

// Runs task(i) for each i below `tasks` on at most `threads` threads, the caller's included.
// Returns the first error; a thread that meets one begins nothing more.
template <class Task>
absl::Status RunTasks(size_t tasks, unsigned threads, Task task) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  absl::Status status;
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < tasks; i = next.fetch_add(1)) {
      const absl::Status result = task(i);
      if (result.ok()) continue;
      const std::lock_guard lock(mutex);
      status.Update(result);
      return;
    }
  };
  std::vector<std::thread> others;
  const size_t count = std::min<size_t>(tasks, std::max(1u, threads));
  for (size_t i = 1; i < count; ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  return status;
}

// After a kill without a power cut recovery sees stores that were never flushed. A power cut that
// comes later must not take back what it believed: so it flushes that first.
class Settler {
 public:
  // `on` is false in a pool that was closed in order.
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
