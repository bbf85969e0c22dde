// The processor's time stamp counter as a clock: some 20 ns to read, so that an operation of 100 ns
// can be timed by itself. Reads are ordered with the instructions around them.
#pragma once

#include <x86intrin.h>

#include <cstdint>

namespace lodgekv::bench {

class TscClock {
 public:
  // Measured once against the steady clock, in some 50 ms.
  static const TscClock& Get();

  static uint64_t Now() {
    unsigned processor = 0;
    _mm_lfence();
    const uint64_t ticks = __rdtscp(&processor);
    _mm_lfence();
    return ticks;
  }

  double nanoseconds_per_tick() const { return nanoseconds_per_tick_; }
  // What two reads with nothing between them differ by, at least.
  uint64_t overhead_ticks() const { return overhead_ticks_; }

 private:
  TscClock();

  double nanoseconds_per_tick_ = 0;
  uint64_t overhead_ticks_ = 0;
};

}  // namespace lodgekv::bench
