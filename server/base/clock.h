// The daemon's only source of wall-clock time, so that tests can set it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lodgekv::server {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual uint64_t NowUnixMs() const = 0;
};

class SystemClock final : public Clock {
 public:
  uint64_t NowUnixMs() const override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  }
};

// A clock that never goes back: while the wrapped clock does, this one stands still.
//
// INVARIANT  No thread reads a time before one that any thread has read. So a value that was
//            reported as expired stays expired for as long as the process runs.
class MonotoneClock final : public Clock {
 public:
  explicit MonotoneClock(const Clock& clock) : clock_(clock) {}

  uint64_t NowUnixMs() const override {
    const uint64_t now = clock_.NowUnixMs();
    uint64_t latest = latest_.load();
    while (now > latest) {
      if (latest_.compare_exchange_weak(latest, now)) return now;
    }
    return latest;
  }

 private:
  const Clock& clock_;
  mutable std::atomic<uint64_t> latest_{0};
};

}  // namespace lodgekv::server
