#include "server/base/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace lodgekv::server {
namespace {

class SetClock final : public Clock {
 public:
  uint64_t NowUnixMs() const override { return now.load(); }
  std::atomic<uint64_t> now{0};
};

TEST(MonotoneClockTest, StandsStillWhileTheWrappedClockGoesBack) {
  SetClock other;
  const MonotoneClock clock(other);
  for (const auto& [given, shown] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 0}, {1'000, 1'000}, {999, 1'000}, {5, 1'000}, {1'001, 1'001}, {2'000, 2'000}}) {
    other.now = given;
    EXPECT_EQ(clock.NowUnixMs(), shown);
  }
}

TEST(MonotoneClockTest, NoThreadReadsATimeBeforeOneThatAnotherHasRead) {
  SetClock other;
  const MonotoneClock clock(other);
  std::atomic<uint64_t> seen{0};
  std::atomic<uint64_t> step{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      for (int reads = 0; reads < 30'000; ++reads) {
        const uint64_t at = ++step;
        other.now = at + (at % 3) * 50;
        const uint64_t floor = seen.load();
        const uint64_t now = clock.NowUnixMs();
        EXPECT_GE(now, floor);
        uint64_t before = seen.load();
        while (now > before && !seen.compare_exchange_weak(before, now)) {
        }
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace lodgekv::server
