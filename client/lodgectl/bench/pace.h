// The clock of a run, and waiting for a moment of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "client/workload/clock.h"

namespace lodgekv::lodgectl {

using workload::NowNs;

// Begin and end of a run.
struct BenchSpan {
  uint64_t begin_ns = 0;
  std::atomic<uint64_t> end_ns = 0;
  std::atomic<bool> was_cut = false;

  bool IsOver() const { return NowNs() >= end_ns; }
  void Cut() {
    end_ns = std::min<uint64_t>(end_ns, NowNs());
    was_cut = true;
  }
};

// False: the run ended before. It looks whether it did at least ten times a second.
inline bool SleepUntil(uint64_t moment_ns, const BenchSpan& span) {
  constexpr uint64_t kLongestSleepNs = 100'000'000;
  for (;;) {
    const uint64_t now = NowNs();
    if (moment_ns >= span.end_ns && span.IsOver()) return false;
    if (now >= moment_ns) return true;
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::min(moment_ns - now, kLongestSleepNs)));
  }
}

}  // namespace lodgekv::lodgectl
