#include "index/node/settle_at_touch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv {
namespace {

constexpr size_t kLeafBytes = 256;
constexpr size_t kLeaves = 8;

class FlushTracer final : public pmem::Tracer {
 public:
  void OnStore(const void*, size_t, bool) override {}
  void OnFlush(const void* line) override { on_flush(line); }
  void OnFence() override {}
  void OnCrashPoint(std::string_view) override {}
  bool OnCanary(std::string_view) override { return false; }

  std::function<void(const void*)> on_flush = [](const void*) {};
};

// Leaf n covers the keys that begin with the n-th letter, and is a stretch of its own.
class SettleAtTouchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    arena_.options().tracer = &tracer_;
    pool_ = arena_.Create();
    leaves_ = pool_
                  ->AcquireChunk(pmem::ChunkUse::kNodes, kLeafBytes, pmem::ReservePolicy::kUse,
                                 /*zero_heads=*/false)
                  ->begin;
  }
  void Begin(SettleAtTouch& settling) {
    std::vector<pmem::Offset> leaves;
    std::vector<SettleAtTouch::Stretch> stretches;
    for (size_t n = 0; n < kLeaves; ++n) {
      leaves.push_back(leaves_ + n * kLeafBytes);
      stretches.push_back({n == 0 ? "" : std::string(1, static_cast<char>('a' + n)), n});
    }
    settling.Begin(std::move(leaves), std::move(stretches));
  }
  size_t LeafOf(const void* line) const { return (pool_->OffsetOf(line) - leaves_) / kLeafBytes; }

  FlushTracer tracer_;
  pmem::TestArena arena_{size_t{1} << 20};
  std::unique_ptr<pmem::Pool> pool_;
  pmem::Offset leaves_ = 0;
};

// The leaf to the left leads to this one, and may take over its range. It may itself be one that an
// operation created, which commits up to `reach` leaves before it.
TEST_F(SettleAtTouchTest, TheLeftNeighbourStaysReachableToo) {
  SettleAtTouch settling(*pool_, kLeafBytes, /*reach=*/2);
  Begin(settling);
  std::set<size_t> flushed;
  tracer_.on_flush = [&](const void* line) { flushed.insert(LeafOf(line)); };
  settling.Touch("f");
  EXPECT_EQ(flushed, (std::set<size_t>{2, 3, 4, 5, 6}));
  flushed.clear();
  settling.Touch("e");
  EXPECT_EQ(flushed, (std::set<size_t>{1, 2}));
}

// Once all is settled a leaf's space may have another owner.
TEST_F(SettleAtTouchTest, NothingIsFlushedAfterTheEnd) {
  SettleAtTouch settling(*pool_, kLeafBytes, /*reach=*/1);
  Begin(settling);
  std::atomic<bool> touching{false};
  std::atomic<bool> ended{false};
  std::atomic<bool> flushed_after{false};
  tracer_.on_flush = [&](const void*) {
    if (!touching.exchange(true)) {
      const auto enough = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
      while (!ended && std::chrono::steady_clock::now() < enough) std::this_thread::yield();
    }
    flushed_after = flushed_after || ended;
  };
  std::thread toucher([&] { settling.Touch("c"); });
  while (!touching) std::this_thread::yield();
  settling.End();
  ended = true;
  toucher.join();
  EXPECT_FALSE(flushed_after);
  EXPECT_FALSE(settling.unfinished());
}

}  // namespace
}  // namespace lodgekv
