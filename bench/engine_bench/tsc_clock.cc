#include "bench/engine_bench/tsc_clock.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

namespace lodgekv::bench {

const TscClock& TscClock::Get() {
  static const TscClock kClock;
  return kClock;
}

TscClock::TscClock() {
  using Steady = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kCalibration{50};
  constexpr int kOverheadSamples = 10'000;

  const Steady::time_point begin = Steady::now();
  const uint64_t begin_ticks = Now();
  std::this_thread::sleep_for(kCalibration);
  const Steady::time_point end = Steady::now();
  const uint64_t end_ticks = Now();
  nanoseconds_per_tick_ = std::chrono::duration<double, std::nano>(end - begin).count() /
                          static_cast<double>(end_ticks - begin_ticks);

  overhead_ticks_ = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < kOverheadSamples; ++i) {
    const uint64_t first = Now();
    overhead_ticks_ = std::min(overhead_ticks_, Now() - first);
  }
}

}  // namespace lodgekv::bench
