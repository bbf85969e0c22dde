// Remembers that an allocation has failed, so that the next one fails at once as long as nothing
// was freed since: a full attempt takes every lock of the pool, and a barrier of all threads.
//
// Freed space is counted only after the first failure since the pool was opened. Around that first
// failure some may be missed, and so may units that gather in another arena until they form a
// chunk: so one allocation in kTries is attempted nevertheless. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace lodgekv::pmem {

class FullMemo {
 public:
  // Whether an allocation would fail. `free`: a count of the space that could be used for it, or
  // similar.
  bool Holds(uint64_t free) {
    if (failed_at_.load(std::memory_order_relaxed) != free) [[likely]]
      return false;
    const uint32_t spared = spared_.load(std::memory_order_relaxed) + 1;
    spared_.store(spared, std::memory_order_relaxed);
    return spared % kTries != 0;
  }
  // Records a failed attempt that began after `free` was read.
  void Note(uint64_t free) { failed_at_.store(free, std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kTries = 64;
  static constexpr uint64_t kNever = UINT64_MAX;
  std::atomic<uint64_t> failed_at_{kNever};
  std::atomic<uint32_t> spared_{0};
};

}  // namespace lodgekv::pmem
