#include "index/pmem/unit_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "index/cost.h"
#include "index/pmem/per_worker.h"
#include "index/pmem/testing/arena_test_util.h"
#include "index/pmem/worker_slot.h"

namespace lodgekv::pmem {
namespace {

using ::testing::ElementsAreArray;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;

std::vector<Offset> TakeAll(UnitArena& arena, ReservePolicy policy = ReservePolicy::kUse) {
  std::vector<Offset> units;
  while (const Offset unit = arena.Allocate(policy)) units.push_back(unit);
  return units;
}

TEST(UnitArenaTest, HandsOutEveryUnitOnceAligned) {
  for (const uint32_t unit_bytes : {16u, 48u, 256u, 320u, 1024u, 8192u}) {
    TestArena memory(128 << 10);
    auto pool = memory.Create();
    UnitArena arena(*pool, ChunkUse::kNodes, unit_bytes);
    std::vector<Offset> units = TakeAll(arena);
    const uint64_t chunks = pool->capacity_bytes() / pool->chunk_bytes();
    EXPECT_EQ(units.size(), chunks * (8192 / unit_bytes)) << unit_bytes;
    EXPECT_EQ(arena.used_units(), units.size());
    EXPECT_EQ(arena.total_units(), units.size());
    std::sort(units.begin(), units.end());
    const uint64_t alignment = std::min<uint64_t>(256, unit_bytes & -unit_bytes);
    for (size_t i = 0; i < units.size(); ++i) {
      EXPECT_EQ(units[i] % alignment, 0u);
      EXPECT_TRUE(arena.IsUnit(units[i]));
      if (i > 0) {
        EXPECT_GE(units[i], units[i - 1] + unit_bytes);
      }
    }
    for (const Offset unit : units) arena.Free(unit);
    EXPECT_EQ(arena.used_units(), 0u);
  }
}

TEST(UnitArenaTest, FreedUnitsServeAgain) {
  TestArena memory(64 << 10);
  auto pool = memory.Create();
  UnitArena arena(*pool, ChunkUse::kNodes, 256);
  const std::vector<Offset> first = TakeAll(arena);
  for (const Offset unit : first) arena.Free(unit);
  const std::vector<Offset> again = TakeAll(arena);
  EXPECT_EQ(std::set(first.begin(), first.end()), std::set(again.begin(), again.end()));
}

TEST(UnitArenaTest, KeepsTheReserve) {
  TestArena memory(64 << 10);
  auto pool = memory.Create();
  UnitArena arena(*pool, ChunkUse::kNodes, 256);
  const size_t kept = TakeAll(arena, ReservePolicy::kKeep).size();
  const size_t more = TakeAll(arena, ReservePolicy::kUse).size();
  EXPECT_EQ(more, pool->reserve_bytes() / 256);
  EXPECT_GT(kept, more);
}

// An allocation that fails does not search others' units again until something becomes free.
TEST(UnitArenaTest, RefusesFastUntilSomethingComesFree) {
  TestArena memory(64 << 10);
  auto pool = memory.Create();
  UnitArena arena(*pool, ChunkUse::kNodes, 256);
  std::vector<Offset> units = TakeAll(arena);
  const uint64_t full = arena.free_state();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(arena.Allocate(ReservePolicy::kUse), 0u);
  EXPECT_EQ(arena.free_state(), full);
  for (int i = 0; i < 1000; ++i) {
    arena.Free(units.back());
    EXPECT_NE(arena.free_state(), full);
    units.back() = arena.Allocate(ReservePolicy::kUse);
    ASSERT_NE(units.back(), 0u) << i;
    EXPECT_EQ(arena.free_state(), full);
    EXPECT_EQ(arena.Allocate(ReservePolicy::kUse), 0u);
  }
}

// Freed by one thread, allocated by another.
TEST(UnitArenaTest, FullArenaFindsWhatAnotherThreadFrees) {
  TestArena memory(64 << 10);
  auto pool = memory.Create();
  UnitArena arena(*pool, ChunkUse::kNodes, 256);
  const std::vector<Offset> units = TakeAll(arena);
  for (const Offset unit : units) {
    std::thread([&] { arena.Free(unit); }).join();
    ASSERT_NE(arena.Allocate(ReservePolicy::kUse), 0u);
    ASSERT_EQ(arena.Allocate(ReservePolicy::kUse), 0u);
  }
}

// A chunk that another arena no longer needs.
TEST(UnitArenaTest, FullArenaFindsTheChunkOfAnother) {
  TestArena memory(64 << 10);
  auto pool = memory.Create();
  UnitArena small(*pool, ChunkUse::kRecords, 64);
  UnitArena big(*pool, ChunkUse::kRecords, 2048);
  const std::vector<Offset> units = TakeAll(small);
  ASSERT_EQ(big.Allocate(ReservePolicy::kUse), 0u);
  for (const Offset unit : units) small.Free(unit);
  EXPECT_NE(big.Allocate(ReservePolicy::kUse), 0u);
}

TEST(UnitArenaTest, EmptyChunksServeOtherClasses) {
  TestArena memory(64 << 10);
  auto pool = memory.Create();
  UnitArena small(*pool, ChunkUse::kRecords, 64);
  UnitArena big(*pool, ChunkUse::kRecords, 2048);
  for (int round = 0; round < 20; ++round) {
    for (UnitArena* arena : {&small, &big}) {
      const std::vector<Offset> units = TakeAll(*arena);
      EXPECT_EQ(units.size() * arena->unit_bytes(), pool->capacity_bytes()) << round;
      for (const Offset unit : units) arena->Free(unit);
      EXPECT_EQ(arena->used_units(), 0u);
    }
  }
}

TEST(UnitArenaTest, KeptChunksStayTheArenas) {
  constexpr uint64_t kKept = 3;
  TestArena memory(128 << 10);
  {
    auto pool = memory.Create();
    UnitArena logs(*pool, ChunkUse::kLogs, 1024);
    logs.KeepChunks(kKept);
    UnitArena other(*pool, ChunkUse::kNodes, 256);
    const size_t others = TakeAll(other).size();
    EXPECT_EQ(others * 256, pool->capacity_bytes() - kKept * pool->chunk_bytes());
    for (int round = 0; round < 3; ++round) {
      const std::vector<Offset> units = TakeAll(logs, ReservePolicy::kKeep);
      EXPECT_THAT(units, SizeIs(kKept * pool->chunk_bytes() / 1024)) << round;
      for (const Offset unit : units) logs.Free(unit);
      logs.GiveBackEmptyChunks();
    }
  }
  // Nothing is marked, and yet they are kept.
  auto pool = memory.Open();
  UnitArena logs(*pool, ChunkUse::kLogs, 1024);
  logs.Adopt(pool->Chunks());
  logs.KeepChunks(kKept);
  logs.FinishMark();
  EXPECT_EQ(logs.total_units(), kKept * pool->chunk_bytes() / 1024);
  EXPECT_EQ(logs.used_units(), 0u);
}

TEST(UnitArenaTest, MarkTellsOnceTwiceAndNotAUnit) {
  TestArena memory(128 << 10);
  std::vector<Offset> kept;
  Offset dropped = 0;
  {
    auto pool = memory.Create();
    UnitArena arena(*pool, ChunkUse::kNodes, 320);
    for (int i = 0; i < 60; ++i) kept.push_back(arena.Allocate(ReservePolicy::kKeep));
    dropped = kept[20];
    kept.erase(kept.begin() + 20);
  }
  auto pool = memory.Open();
  UnitArena arena(*pool, ChunkUse::kNodes, 320);
  UnitArena other(*pool, ChunkUse::kLogs, 320);
  arena.Adopt(pool->Chunks());
  other.Adopt(pool->Chunks());
  EXPECT_EQ(other.total_units(), 0u);
  for (const Offset unit : kept) EXPECT_EQ(arena.Mark(unit), UnitArena::MarkResult::kMarked);
  EXPECT_EQ(arena.Mark(kept[7]), UnitArena::MarkResult::kTwice);
  EXPECT_EQ(other.Mark(kept[7]), UnitArena::MarkResult::kNotAUnit);
  // The rest of a chunk after its last whole unit is no unit.
  const Chunk chunk = pool->FindChunk(kept[7]);
  const Offset tail = chunk.begin + chunk.bytes / 320 * 320;
  for (const Offset wrong : {kept[7] + 16, Offset{0}, Offset{64}, ~Offset{0}, tail}) {
    EXPECT_EQ(arena.Mark(wrong), UnitArena::MarkResult::kNotAUnit) << wrong;
  }
  arena.FinishMark();
  EXPECT_EQ(arena.used_units(), kept.size());
  std::vector<Offset> rest = TakeAll(arena);
  EXPECT_THAT(rest, ::testing::Contains(dropped));
  for (const Offset unit : kept) EXPECT_THAT(rest, ::testing::Not(::testing::Contains(unit)));
}

TEST(UnitArenaTest, FinishMarkGivesUnreachedChunksBack) {
  TestArena memory(128 << 10);
  {
    auto pool = memory.Create();
    UnitArena arena(*pool, ChunkUse::kNodes, 256);
    TakeAll(arena, ReservePolicy::kKeep);
  }
  auto pool = memory.Open();
  const size_t chunks = pool->Chunks().size();
  ASSERT_GT(chunks, 3u);
  UnitArena arena(*pool, ChunkUse::kNodes, 256);
  arena.Adopt(pool->Chunks());
  EXPECT_EQ(arena.Mark(pool->Chunks()[2].begin), UnitArena::MarkResult::kMarked);
  arena.FinishMark();
  EXPECT_THAT(pool->Chunks(), SizeIs(1));
  EXPECT_EQ(arena.used_units(), 1u);
  EXPECT_EQ(arena.total_units(), 32u);
  EXPECT_THAT(memory.Open()->Chunks(), SizeIs(1));
}

TEST(UnitArenaTest, VisitsEveryUnitInOrder) {
  TestArena memory(128 << 10);
  auto pool = memory.Create();
  UnitArena arena(*pool, ChunkUse::kLogs, 4096);
  std::vector<Offset> units = TakeAll(arena);
  std::sort(units.begin(), units.end());
  std::vector<Offset> visited;
  for (const Chunk& chunk : arena.OwnChunks()) {
    arena.VisitUnits(chunk, [&](Offset unit) { visited.push_back(unit); });
  }
  EXPECT_THAT(visited, ElementsAreArray(units));
}

// The previous content of the chunk, free or of another use, is not found in it.
TEST(UnitArenaTest, ZeroesHeadsWhenAChunkIsTaken) {
  for (const uint32_t unit_bytes : {16u, 80u, 256u, 1024u}) {
    TestArena memory(64 << 10);
    auto pool = memory.Create();
    {
      UnitArena other(*pool, ChunkUse::kRecords, 2048);
      for (const Offset unit : TakeAll(other)) {
        std::memset(pool->At<char>(unit), 0x77, 2048);
        other.Free(unit);
      }
    }
    UnitArena arena(*pool, ChunkUse::kNodes, unit_bytes, ZeroHeads::kWhenTaken);
    const std::vector<Offset> units = TakeAll(arena);
    ASSERT_FALSE(units.empty());
    const size_t head = std::min<size_t>(unit_bytes, kLineBytes);
    const std::string zeros(head, '\0');
    for (const Offset unit : units) {
      ASSERT_EQ(std::string(pool->At<char>(unit), head), zeros) << unit_bytes;
      if (unit_bytes > kLineBytes) {
        ASSERT_NE(pool->At<char>(unit)[kLineBytes], 0);
      }
    }
    *pool->At<char>(units[0]) = 'x';
    arena.Free(units[0]);
    EXPECT_EQ(arena.Allocate(ReservePolicy::kUse), units[0]);
    EXPECT_EQ(*pool->At<char>(units[0]), 'x') << "units that come back are the caller's to clear";
  }
}

TEST(UnitArenaTest, ZeroesHeadsWhenAChunkIsReleased) {
  TestArena memory(64 << 10);
  auto pool = memory.Create();
  UnitArena arena(*pool, ChunkUse::kLogs, 1024, ZeroHeads::kWhenReleased);
  const std::vector<Offset> units = TakeAll(arena);
  EXPECT_NE(*pool->At<char>(units[0]), 0) << "a fresh chunk holds anything";
  for (const Offset unit : units) arena.Free(unit);
  EXPECT_TRUE(arena.GiveBackEmptyChunks());
  EXPECT_EQ(arena.total_units(), 0u);
  for (const Offset unit : units) EXPECT_EQ(*pool->At<uint64_t>(unit), 0u);
}

TEST(UnitArenaTest, AMarkThatIsTakenBackLeavesTheUnitFree) {
  TestArena memory(128 << 10);
  auto pool = memory.Create();
  std::vector<Offset> units;
  {
    UnitArena arena(*pool, ChunkUse::kNodes, 256);
    units = TakeAll(arena);
  }
  UnitArena arena(*pool, ChunkUse::kNodes, 256);
  arena.Adopt(pool->Chunks());
  for (const Offset unit : units) ASSERT_EQ(arena.Mark(unit), UnitArena::MarkResult::kMarked);
  const std::vector<Offset> free = {units[3], units[70], units[units.size() - 1]};
  for (const Offset unit : free) arena.Unmark(unit);
  arena.FinishMark();
  EXPECT_EQ(arena.used_units(), units.size() - free.size());
  EXPECT_THAT(TakeAll(arena), UnorderedElementsAreArray(free));
}

TEST(UnitArenaTest, SamplesUnitsAtEvenDistancesAcrossChunks) {
  TestArena memory(128 << 10);
  auto pool = memory.Create();
  UnitArena arena(*pool, ChunkUse::kNodes, 256);
  std::vector<Offset> units = TakeAll(arena);
  std::sort(units.begin(), units.end());
  ASSERT_GT(arena.OwnChunks().size(), 2u);
  for (const uint64_t step : {1, 2, 7, 40, 100, 1000000}) {
    std::vector<Offset> expected;
    for (size_t i = step / 2; i < units.size(); i += step) expected.push_back(units[i]);
    EXPECT_THAT(arena.SampleUnits(step), ElementsAreArray(expected)) << step;
  }
}

// Has another thread free the unit and return its chunk in the middle of the flush of its line.
class FreeingTracer final : public Tracer {
 public:
  void FreeWhenFlushed(Pool& pool, UnitArena& arena, Offset unit) {
    line_ = pool.At<char>(unit);
    free_ = [&pool, &arena, unit] {
      arena.Free(unit);
      (void)pool.CollectEmptyChunks();
    };
    is_unit_ = [&arena, unit] { return arena.IsUnit(unit); };
  }
  bool was_unit_throughout() const { return was_unit_; }
  void Join() { other_.join(); }

  void OnStore(const void*, size_t, bool) override {}
  // The other thread must not get through, however long it has: a tenth of a second.
  void OnFlush(const void* line) override {
    if (line != line_ || other_.joinable()) return;
    other_ = std::thread(free_);
    for (int i = 0; i < 100 && is_unit_(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    was_unit_ = is_unit_();
  }
  void OnFence() override {}
  void OnCrashPoint(std::string_view) override {}
  bool OnCanary(std::string_view) override { return false; }

 private:
  const void* line_ = nullptr;
  std::function<void()> free_;
  std::function<bool()> is_unit_;
  std::thread other_;
  bool was_unit_ = false;
};

// The line would be another's by then, and on an ordinary file in the journal.
TEST(UnitArenaTest, NoChunkIsReturnedWhileTheHeadOfAUnitIsFlushed) {
  FreeingTracer tracer;
  TestArena memory(64 << 10);
  memory.options().tracer = &tracer;
  auto pool = memory.Create();
  UnitArena arena(*pool, ChunkUse::kNodes, 256);
  const Offset unit = arena.Allocate(ReservePolicy::kUse);
  tracer.FreeWhenFlushed(*pool, arena, unit);
  EXPECT_TRUE(arena.FlushHead(unit));
  EXPECT_TRUE(tracer.was_unit_throughout());
  tracer.Join();
  EXPECT_FALSE(arena.IsUnit(unit));
  const uint64_t lines = ThreadCost().lines_flushed;
  EXPECT_FALSE(arena.FlushHead(unit));
  EXPECT_EQ(ThreadCost().lines_flushed, lines);
}

TEST(UnitArenaTest, FindsUnitsInTheCachesOfOtherThreads) {
  TestArena memory(256 << 10);
  auto pool = memory.Create();
  UnitArena arena(*pool, ChunkUse::kNodes, 256);
  const std::vector<Offset> all = TakeAll(arena);
  std::atomic<bool> freed{false}, done{false};
  std::thread other([&] {
    for (int i = 0; i < 6; ++i) arena.Free(all[i]);
    freed = true;
    while (!done) std::this_thread::yield();
  });
  while (!freed) std::this_thread::yield();
  EXPECT_EQ(arena.used_units(), all.size() - 6);
  EXPECT_THAT(TakeAll(arena), SizeIs(6));
  done = true;
  other.join();
}

// Threads allocate and free units of a medium that is nearly full, so that they steal from one
// another. A unit that two threads hold at a time would lose its mark.
TEST(UnitArenaTest, ThreadsNeverShareAUnit) {
  TestArena memory(96 << 10);
  auto pool = memory.Create();
  UnitArena arena(*pool, ChunkUse::kNodes, 256);
  const uint64_t capacity = pool->capacity_bytes() / 256;
  constexpr int kThreads = 4;
  std::atomic<uint64_t> failures{0}, full{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<Offset> held;
      for (int i = 0; i < 60'000; ++i) {
        if (random() % 2 == 0 || held.empty()) {
          const Offset unit = arena.Allocate(ReservePolicy::kUse);
          if (unit == 0) {
            ++full;
          } else {
            *pool->At<uint64_t>(unit) = unit ^ static_cast<uint64_t>(t);
            held.push_back(unit);
          }
        } else {
          std::swap(held[random() % held.size()], held.back());
          const Offset unit = held.back();
          held.pop_back();
          if (*pool->At<uint64_t>(unit) != (unit ^ static_cast<uint64_t>(t))) ++failures;
          arena.Free(unit);
        }
        // Each thread may hold somewhat more than its share.
        while (held.size() > capacity / 3) {
          arena.Free(held.back());
          held.pop_back();
        }
      }
      for (const Offset unit : held) arena.Free(unit);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(arena.used_units(), 0u);
  EXPECT_EQ(TakeAll(arena).size(), capacity);
}

TEST(UnitArenaTest, MarksFromManyThreads) {
  TestArena memory(256 << 10);
  auto pool = memory.Create();
  UnitArena taker(*pool, ChunkUse::kNodes, 64);
  const std::vector<Offset> units = TakeAll(taker, ReservePolicy::kKeep);
  UnitArena arena(*pool, ChunkUse::kNodes, 64);
  arena.Adopt(pool->Chunks());
  std::atomic<uint64_t> marked{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (const Offset unit : units) {
        if (arena.Mark(unit) == UnitArena::MarkResult::kMarked) ++marked;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(marked, units.size());
  arena.FinishMark();
  EXPECT_EQ(arena.used_units(), units.size());
}

TEST(UnitArenaDeathTest, RefusesToFreeTwice) {
  TestArena memory(64 << 10);
  auto pool = memory.Create();
  UnitArena arena(*pool, ChunkUse::kNodes, 2048);
  const Offset unit = arena.Allocate(ReservePolicy::kKeep);
  EXPECT_DEATH(
      {
        for (int i = 0; i < 10; ++i) arena.Free(unit);
      },
      "free of a unit that is free");
}

TEST(WorkerSlotTest, IsStableWithinAThreadAndReusedAfterIt) {
  const uint32_t own = CurrentWorkerSlot();
  EXPECT_EQ(CurrentWorkerSlot(), own);
  std::set<uint32_t> slots;
  for (uint32_t i = 0; i < 3 * kMaxWorkerSlots; ++i) {
    std::thread([&] { slots.insert(CurrentWorkerSlot()); }).join();
  }
  EXPECT_THAT(slots, SizeIs(1));
  EXPECT_FALSE(slots.contains(own));
}

TEST(PerWorkerTest, AThreadFindsWhatAnEarlierOneWithItsSlotHasLeft) {
  PerWorker<std::atomic<int>> counts;
  counts.Current() = 100;
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { EXPECT_EQ(counts.Current()++, i); }).join();
  }
  std::thread([&] {
    (void)CurrentWorkerSlot();  // before it asks
    EXPECT_EQ(counts.Current(), 3);
  }).join();
  EXPECT_EQ(counts.Current(), 100);
  int items = 0;
  counts.ForEach([&](const std::atomic<int>&) { ++items; });
  EXPECT_EQ(items, 2);
}

TEST(WorkerSlotTest, WaitsWhenAllAreTaken) {
  std::atomic<uint32_t> have{0};
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  CurrentWorkerSlot();
  for (uint32_t i = 0; i < kMaxWorkerSlots; ++i) {
    threads.emplace_back([&] {
      EXPECT_LT(CurrentWorkerSlot(), kMaxWorkerSlots);
      ++have;
      while (!end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  while (have < kMaxWorkerSlots - 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(have, kMaxWorkerSlots - 1);
  end = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(have, kMaxWorkerSlots);
}

}  // namespace
}  // namespace lodgekv::pmem
