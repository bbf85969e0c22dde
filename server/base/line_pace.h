// Limits log lines of one kind to so many a second, and counts those left out.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>

namespace lodgekv::server {

class LinePace {
 public:
  explicit LinePace(uint64_t lines_per_second = 1) : lines_per_second_(lines_per_second) {}

  // Whether a line may be written now; `suppressed` is then the number of lines left out since the
  // last.
  bool Due(uint64_t* suppressed) {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (lines_ == 0 || now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      lines_ = 0;
    }
    if (lines_ == lines_per_second_) {
      ++suppressed_;
      return false;
    }
    ++lines_;
    *suppressed = std::exchange(suppressed_, 0);
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;

  const uint64_t lines_per_second_;
  std::mutex mutex_;
  // All guarded by mutex_: the second in which `lines_` were written begins at `second_`.
  Clock::time_point second_;
  uint64_t lines_ = 0;
  uint64_t suppressed_ = 0;
};

}  // namespace lodgekv::server
