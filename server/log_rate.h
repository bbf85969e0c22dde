// At most a few lines a second of a kind, and how many were left out.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

namespace lodgekv::server {

class LogRate {
 public:
  // True: log it, and say that so many were not logged before.
  bool May(std::chrono::steady_clock::time_point now, uint64_t* left_out) {
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      in_second_ = 0;
    }
    if (++in_second_ > kLinesPerSecond) {
      ++left_out_;
      return false;
    }
    *left_out = std::exchange(left_out_, 0);
    return true;
  }

 private:
  static constexpr uint64_t kLinesPerSecond = 10;

  std::chrono::steady_clock::time_point second_;
  uint64_t in_second_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace lodgekv::server
