#include "bench/engine_bench/tsc_clock.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

namespace lodgekv::bench {
namespace {

uint64_t MeasureOverhead(OpEnd end) {
  constexpr int kSamples = 10'000;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < kSamples; ++i) {
    const uint64_t first = TscClock::Now(end);
    least = std::min(least, TscClock::Now(end) - first);
  }
  return least;
}

}  // namespace

const TscClock& TscClock::Get() {
  static const TscClock kClock;
  return kClock;
}

TscClock::TscClock() {
  using Steady = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kCalibration{50};

  const Steady::time_point begin = Steady::now();
  const uint64_t begin_ticks = Now(OpEnd::kRetired);
  std::this_thread::sleep_for(kCalibration);
  const Steady::time_point end = Steady::now();
  const uint64_t end_ticks = Now(OpEnd::kRetired);
  nanoseconds_per_tick_ = std::chrono::duration<double, std::nano>(end - begin).count() /
                          static_cast<double>(end_ticks - begin_ticks);

  drained_overhead_ticks_ = MeasureOverhead(OpEnd::kDrained);
  retired_overhead_ticks_ = MeasureOverhead(OpEnd::kRetired);
}

}  // namespace lodgekv::bench
