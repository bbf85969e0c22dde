#include "index/node/reclaimer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "index/node/epoch.h"
#include "index/node/retired_records.h"
#include "index/pmem/testing/arena_test_util.h"
#include "index/pmem/testing/silent_tracer.h"

namespace lodgekv {
namespace {

using pmem::Offset;
using std::chrono::milliseconds;

class ReclaimerTest : public ::testing::Test {
 protected:
  std::vector<Offset> Take(unsigned records) {
    std::vector<Offset> taken;
    for (unsigned i = 0; i < records; ++i) {
      taken.push_back(slab_.Allocate(100, pmem::ReservePolicy::kKeep));
      EXPECT_NE(taken.back(), 0u);
    }
    return taken;
  }
  void Retire(Reclaimer& reclaimer, std::vector<Offset>& batch) {
    uint64_t bytes = 0;
    for (const Offset record : batch) bytes += slab_.SpaceAt(record);
    reclaimer.Retire(batch, bytes);
  }
  bool BecomesEmpty() {
    for (int i = 0; i < 5000 && slab_.used_bytes() != 0; ++i) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    return slab_.used_bytes() == 0;
  }

  pmem::TestArena arena_{8 << 20};
  std::unique_ptr<pmem::Pool> pool_ = arena_.Create();
  pmem::RecordSlab slab_{*pool_};
  pmem::UnitArena units_{*pool_, pmem::ChunkUse::kNodes, 256};
  pmem::SilentTracer tracer_;
  BackgroundWorker worker_{"reclaimer", nullptr};
  BackgroundWorker in_place_{"in place", &tracer_};
};

// A thread that holds an epoch until it is told to end.
class Reader {
 public:
  Reader()
      : thread_([this] {
          const EpochGuard guard;
          inside_ = true;
          while (!leave_) std::this_thread::sleep_for(milliseconds(1));
        }) {
    while (!inside_) std::this_thread::yield();
  }
  ~Reader() { Leave(); }
  void Leave() {
    leave_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> leave_{false};
  std::thread thread_;
};

TEST(EpochTest, WaitsForGuardsThatWereHeld) {
  Reader reader;
  std::atomic<bool> passed{false};
  std::thread waiter([&] {
    WaitForEpochs();
    passed = true;
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(passed.load());
  reader.Leave();
  waiter.join();
  EXPECT_TRUE(passed.load());
}

TEST(EpochTest, GuardsNest) {
  {
    const EpochGuard outer;
    const EpochGuard inner;
  }
  WaitForEpochs();
}

TEST_F(ReclaimerTest, InPlaceFreesAtOnce) {
  Reclaimer reclaimer(slab_, in_place_);
  std::vector<Offset> batch = Take(10);
  Retire(reclaimer, batch);
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(slab_.used_bytes(), 0u);
}

TEST_F(ReclaimerTest, FreesInTheBackground) {
  Reclaimer reclaimer(slab_, worker_);
  std::vector<Offset> batch = Take(10);
  Retire(reclaimer, batch);
  EXPECT_TRUE(batch.empty());
  EXPECT_TRUE(BecomesEmpty());
}

TEST_F(ReclaimerTest, NotWhileAReaderMayLook) {
  Reclaimer reclaimer(slab_, worker_);
  std::vector<Offset> batch = Take(10);
  const uint64_t used = slab_.used_bytes();
  Reader reader;
  Retire(reclaimer, batch);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(slab_.used_bytes(), used);
  reader.Leave();
  EXPECT_TRUE(BecomesEmpty());
}

// Also what the background thread is freeing when Drain is called: many records, so that it is not
// done with them when the epoch ends that both wait for.
TEST_F(ReclaimerTest, DrainFreesAllThatWasRetired) {
  Reclaimer reclaimer(slab_, worker_);
  for (int round = 0; round < 20; ++round) {
    std::vector<Offset> batch = Take(5000);
    {
      Reader reader;
      Retire(reclaimer, batch);
      std::this_thread::sleep_for(milliseconds(5));
    }
    (void)reclaimer.Drain();  // the thread may have been faster
    ASSERT_EQ(slab_.used_bytes(), 0u) << "round " << round;
    worker_.WaitUntilIdle();
  }
}

// A caller that is refused for lack of space asks repeatedly.
TEST_F(ReclaimerTest, DrainOfNothingWaitsForNobody) {
  Reclaimer reclaimer(slab_, worker_);
  Reader reader;
  EXPECT_FALSE(reclaimer.Drain());
  std::vector<Offset> batch = Take(1);
  Retire(reclaimer, batch);
  reader.Leave();
  (void)reclaimer.Drain();
  EXPECT_EQ(slab_.used_bytes(), 0u);
  EXPECT_FALSE(reclaimer.Drain());
}

// Otherwise what waits takes all of the pool, by sizes as they come, while a machine is busy.
TEST_F(ReclaimerTest, WritersFreeWhatASlowWorkerDoesNot) {
  std::atomic<bool> go_on{false};
  worker_.Post([&]() -> absl::StatusOr<BackgroundWorker::Progress> {
    while (!go_on) std::this_thread::sleep_for(milliseconds(1));
    return BackgroundWorker::Progress::kDone;
  });
  Reclaimer reclaimer(slab_, worker_);
  std::vector<Offset> batch = Take(1);
  const uint64_t one = slab_.used_bytes();
  for (size_t retired = 0; retired < 20 * Reclaimer::kMostRecords; retired += batch.size()) {
    Retire(reclaimer, batch);
    ASSERT_LE(slab_.used_bytes(), Reclaimer::kMostRecords * one) << "after " << retired;
    batch = Take(RetiredRecords::kMostRecords);
  }
  std::vector<Offset> large;
  for (uint64_t bytes = 0; bytes < 20 * Reclaimer::kMostBytes;
       bytes += RetiredRecords::kMostBytes) {
    large = {slab_.Allocate(RetiredRecords::kMostBytes, pmem::ReservePolicy::kKeep)};
    ASSERT_NE(large[0], 0u) << "after " << bytes;
    Retire(reclaimer, large);
  }
  Retire(reclaimer, batch);
  go_on = true;
  EXPECT_TRUE(BecomesEmpty());
}

TEST_F(ReclaimerTest, EndsWithRecordsWaiting) {
  std::vector<Offset> batch = Take(10);
  Reclaimer reclaimer(slab_, worker_);
  Retire(reclaimer, batch);
}

TEST_F(ReclaimerTest, UnitsWaitForReadersAsRecordsDo) {
  Reclaimer reclaimer(slab_, worker_);
  const Offset unit = units_.Allocate(pmem::ReservePolicy::kKeep);
  ASSERT_NE(unit, 0u);
  {
    Reader reader;
    reclaimer.RetireUnit(units_, unit);
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_EQ(units_.used_units(), 1u);
  }
  (void)reclaimer.Drain();
  EXPECT_EQ(units_.used_units(), 0u);
}

// Within a guard and under locks nothing may be waited for, in place either: the free is deferred.
TEST_F(ReclaimerTest, InPlaceUnitsWaitForTheNextRetireOrDrain) {
  Reclaimer reclaimer(slab_, in_place_);
  const auto retire = [&] {
    const EpochGuard guard;
    reclaimer.RetireUnit(units_, units_.Allocate(pmem::ReservePolicy::kKeep));
  };
  retire();
  EXPECT_EQ(units_.used_units(), 1u);
  std::vector<Offset> batch = Take(1);
  Retire(reclaimer, batch);
  EXPECT_EQ(units_.used_units(), 0u);
  retire();
  EXPECT_TRUE(reclaimer.Drain());
  EXPECT_EQ(units_.used_units(), 0u);
}

// The space of a large value that was replaced can be reused at once, that of many small ones when
// they are a batch.
TEST_F(ReclaimerTest, AThreadHoldsBackFewRecordsAndFewBytes) {
  RetiredRecords retired;
  EXPECT_FALSE(retired.full());
  const Offset large = slab_.Allocate(RetiredRecords::kMostBytes, pmem::ReservePolicy::kKeep);
  ASSERT_NE(large, 0u);
  retired.Add(slab_, large);
  EXPECT_TRUE(retired.full());
  EXPECT_GE(retired.bytes(), RetiredRecords::kMostBytes);
  Reclaimer reclaimer(slab_, in_place_);
  retired.HandTo(reclaimer);
  EXPECT_TRUE(retired.empty());
  EXPECT_EQ(retired.bytes(), 0u);
  EXPECT_EQ(slab_.used_bytes(), 0u);
  for (const Offset record : Take(RetiredRecords::kMostRecords)) {
    EXPECT_FALSE(retired.full());
    retired.Add(slab_, record);
  }
  EXPECT_TRUE(retired.full());
  retired.HandTo(reclaimer);
  EXPECT_EQ(slab_.used_bytes(), 0u);
}

}  // namespace
}  // namespace lodgekv
