// Remembers that an allocation has failed, so that the next one fails at once as long as nothing
// has come free since: to find out anew takes every lock of the pool, and a barrier of all threads.
//
// What is free is counted from the first failure in a pool's life on. That first time something may
// be missed, and so may units that gather in another arena until they could be a chunk: so one
// allocation in kTries is tried all the same. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace lodgekv::pmem {

class FullMemo {
 public:
  // Whether an allocation would fail. `free` tells what could serve it: a count, or the like.
  bool Holds(uint64_t free) {
    if (failed_at_.load(std::memory_order_relaxed) != free) [[likely]]
      return false;
    const uint32_t spared = spared_.load(std::memory_order_relaxed) + 1;
    spared_.store(spared, std::memory_order_relaxed);
    return spared % kTries != 0;
  }
  // It has failed, and began after `free` was read.
  void Note(uint64_t free) { failed_at_.store(free, std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kTries = 64;
  static constexpr uint64_t kNever = UINT64_MAX;
  std::atomic<uint64_t> failed_at_{kNever};
  std::atomic<uint32_t> spared_{0};
};

}  // namespace lodgekv::pmem
