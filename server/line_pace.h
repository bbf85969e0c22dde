// At most a line a second of the log about what outsiders cause, and how many had none.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>

namespace lodgekv::server {

class LinePace {
 public:
  // Whether it is time for a line; `suppressed` is then how many had none since the last.
  bool Due(uint64_t* suppressed) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (written_ && now - last_ < kBetweenLines) {
      ++suppressed_;
      return false;
    }
    written_ = true;
    last_ = now;
    *suppressed = std::exchange(suppressed_, 0);
    return true;
  }

 private:
  static constexpr std::chrono::seconds kBetweenLines{1};

  std::mutex mutex_;
  bool written_ = false;
  std::chrono::steady_clock::time_point last_;
  uint64_t suppressed_ = 0;
};

}  // namespace lodgekv::server
