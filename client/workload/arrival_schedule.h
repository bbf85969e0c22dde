// When the calls of an open loop are due: at an even rate, whatever the server does. A call's
// latency counts from then, not from when it was sent: what waits because the client was still
// busy, or the server slow, is not left out (coordinated omission).
#pragma once

#include <cstdint>

namespace lodgekv::workload {

class ArrivalSchedule {
 public:
  ArrivalSchedule(uint64_t begin_ns, uint64_t end_ns, uint64_t calls_per_second)
      : begin_ns_(begin_ns), end_ns_(end_ns), calls_per_second_(calls_per_second) {}

  // When the next call is due. Each is computed from the beginning: what is rounded off does not
  // add up.
  uint64_t next_ns() const {
    const auto since = static_cast<unsigned __int128>(taken_) * kSecondNs / calls_per_second_;
    return begin_ns_ + static_cast<uint64_t>(since);
  }
  bool IsOver() const { return next_ns() >= end_ns_; }
  bool IsDue(uint64_t now_ns) const { return !IsOver() && next_ns() <= now_ns; }
  void Take() { ++taken_; }

 private:
  static constexpr uint64_t kSecondNs = 1'000'000'000;

  const uint64_t begin_ns_;
  const uint64_t end_ns_;
  const uint64_t calls_per_second_;
  uint64_t taken_ = 0;
};

}  // namespace lodgekv::workload
