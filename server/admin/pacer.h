// Limits long background work to a share of one thread's time.
#pragma once

#include <chrono>
#include <thread>

namespace lodgekv::server {

class Pacer {
 public:
  // Pause sleeps `rest` times as long as the work since construction, or since the last pause,
  // took.
  explicit Pacer(int rest) : rest_(rest) {}

  void Pause() {
    std::this_thread::sleep_for((Clock::now() - since_) * rest_);
    since_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const int rest_;
  Clock::time_point since_ = Clock::now();
};

}  // namespace lodgekv::server
