// The daemon's only source of wall-clock time, so that tests can set it.
#pragma once

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

}  // namespace lodgekv::server
