// The processor's time stamp counter as a clock: some 20 ns to read, so that an operation of 100 ns
// can be timed by itself. Reads are ordered with the instructions around them.
#pragma once

#include <x86intrin.h>

#include <atomic>
#include <cstdint>

namespace lodgekv::bench {

// When an operation counts as done. A store fence may retire long before the flushes that it orders
// are done, if no store follows: on such a processor the time to kRetired excludes most of a fence.
enum class OpEnd : uint8_t {
  kDrained,  // its stores and flushes have left the processor, even those it need not wait for
  kRetired,  // its last instruction has retired
};

class TscClock {
 public:
  // Measured once against the steady clock, in some 50 ms.
  static const TscClock& Get();

  static uint64_t Now(OpEnd end) {
    // Any LOCK-prefixed instruction waits until earlier stores and flushes are done.
    std::atomic<uint32_t> drain;
    if (end == OpEnd::kDrained) drain.fetch_add(1);
    unsigned processor = 0;
    _mm_lfence();
    const uint64_t ticks = __rdtscp(&processor);
    _mm_lfence();
    return ticks;
  }

  double nanoseconds_per_tick() const { return nanoseconds_per_tick_; }
  // The minimum difference of two consecutive reads.
  uint64_t overhead_ticks(OpEnd end) const {
    return end == OpEnd::kDrained ? drained_overhead_ticks_ : retired_overhead_ticks_;
  }

 private:
  TscClock();

  double nanoseconds_per_tick_ = 0;
  uint64_t drained_overhead_ticks_ = 0;
  uint64_t retired_overhead_ticks_ = 0;
};

}  // namespace lodgekv::bench
