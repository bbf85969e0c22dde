// Threads that start and end: more over time, and at one moment, than an engine has worker slots.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "index/pmem/worker_slot.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/support/threads.h"

namespace lodgekv::test {
namespace {

class ThreadChurnTest : public ConformanceTest {
 protected:
  void ExpectAllAfterRestart(uint64_t keys) {
    ExpectRange(0, keys);
    if (!harness().persistent()) return;
    ASSERT_TRUE(harness().KillAndReopen().ok());
    ExpectRange(0, keys);
    ASSERT_TRUE(harness().CloseAndReopen().ok());
    ExpectRange(0, keys);
  }
};

TEST_P(ThreadChurnTest, MoreThreadsOverTimeThanPlaces) {
  constexpr uint32_t kAtOnce = 8;
  constexpr uint64_t kKeysPerThread = 10;
  const uint64_t waves = 3 * pmem::kMaxWorkerSlots / kAtOnce;
  for (uint64_t wave = 0; wave < waves; ++wave) {
    RunTogether(kAtOnce, [&](uint32_t thread) {
      const uint64_t begin = (wave * kAtOnce + thread) * kKeysPerThread;
      for (uint64_t number = begin; number < begin + kKeysPerThread; ++number) {
        EXPECT_EQ(Put(engine(), Key(number), Value(number)).outcome, Outcome::kOk);
        EXPECT_EQ(Get(engine(), Key(number)).value, Value(number));
      }
      EXPECT_EQ(ScanAll(engine(), {.limit = 3}).size(), 3u);
    });
  }
  ExpectAllAfterRestart(waves * kAtOnce * kKeysPerThread);
}

TEST_P(ThreadChurnTest, MoreThreadsAtOnceThanPlaces) {
  const uint32_t threads = pmem::kMaxWorkerSlots + 44;
  std::atomic<uint32_t> finished{0};
  RunTogether(threads, [&](uint32_t thread) {
    EXPECT_EQ(Put(engine(), Key(thread), Value(thread)).outcome, Outcome::kOk);
    EXPECT_EQ(Get(engine(), Key(thread)).value, Value(thread));
    finished.fetch_add(1);
  });
  EXPECT_EQ(finished.load(), threads);
  ExpectAllAfterRestart(threads);
}

TEST_P(ThreadChurnTest, WorkOfThreadsThatEndedIsOverwrittenByOthers) {
  constexpr uint64_t kKeys = 50;
  for (uint64_t wave = 0; wave < 40; ++wave) {
    RunTogether(4, [&](uint32_t thread) {
      for (uint64_t number = thread; number < kKeys; number += 4) {
        EXPECT_EQ(Put(engine(), Key(number), Value(wave * kKeys + number)).outcome, Outcome::kOk);
      }
    });
    if (wave % 8 == 7 && harness().persistent()) {
      ASSERT_TRUE(harness().KillAndReopen().ok());
    }
    for (uint64_t number = 0; number < kKeys; ++number) {
      ExpectValue(Key(number), Value(wave * kKeys + number));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, ThreadChurnTest, ::testing::ValuesIn(StoringCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
