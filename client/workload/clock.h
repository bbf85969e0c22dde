// The clock that latencies are measured by.
#pragma once

#include <chrono>
#include <cstdint>

namespace lodgekv::workload {

// Of the steady clock.
inline uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace lodgekv::workload
