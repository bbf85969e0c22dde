#include "tests/crash/lab/watchdog.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

// An image takes microseconds. Measured in processor time, so that a busy machine does not look
// like a hang; wall time catches threads that sleep forever.
constexpr unsigned kCpuSeconds = 15 * kSanitizerSlowdown;
constexpr unsigned kWallSeconds = 240 * kSanitizerSlowdown;
constexpr std::chrono::seconds kPollInterval{1};

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

Watchdog::Watchdog(std::function<std::string()> describe)
    : describe_(std::move(describe)), thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Watchdog::Run() {
  uint64_t last = 0;
  double cpu = CpuSeconds();
  unsigned stalled = 0;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kPollInterval, [this] { return stop_; })) {
    const uint64_t now = progress_.load(std::memory_order_relaxed);
    if (now != last) {
      last = now;
      cpu = CpuSeconds();
      stalled = 0;
    } else if (++stalled >= kWallSeconds || CpuSeconds() - cpu >= kCpuSeconds) {
      std::fprintf(stderr, "it does not end: %s\n", describe_().c_str());
      std::abort();
    }
  }
}

}  // namespace lodgekv::test
