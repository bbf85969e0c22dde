// Ends the program with a message if the watched work makes no progress: an image on which recovery
// never ends is a failure like any other, and must be repeatable.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace lodgekv::test {

class Watchdog {
 public:
  // `describe` is called on another thread once there is no progress any more.
  explicit Watchdog(std::function<std::string()> describe);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void Progress() { progress_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void Run();

  const std::function<std::string()> describe_;
  std::atomic<uint64_t> progress_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lodgekv::test
