// Allocation and frees while the used units of adopted chunks are still being found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "index/pmem/testing/arena_test_util.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv::pmem {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;
using MarkResult = UnitArena::MarkResult;

constexpr uint32_t kUnit = 256;
constexpr size_t kPerChunk = 8192 / kUnit;

std::vector<Offset> TakeAll(UnitArena& arena) {
  std::vector<Offset> units;
  while (const Offset unit = arena.Allocate(ReservePolicy::kUse)) units.push_back(unit);
  return units;
}

// A pool with chunks whose units may be in use, as a restart finds it.
class UnfinishedArenaTest : public ::testing::Test {
 protected:
  explicit UnfinishedArenaTest(size_t bytes = 256 << 10, size_t chunks = 3) : memory_(bytes) {
    pool_ = memory_.Create();
    {
      UnitArena before(*pool_, ChunkUse::kNodes, kUnit);
      for (size_t i = 0; i < chunks * kPerChunk; ++i) {
        old_.push_back(before.Allocate(ReservePolicy::kUse));
      }
    }
    std::sort(old_.begin(), old_.end());
    arena_ = std::make_unique<UnitArena>(*pool_, ChunkUse::kNodes, kUnit);
    arena_->Adopt(pool_->Chunks());
  }

  Chunk ChunkOf(Offset unit) const { return pool_->FindChunk(unit); }
  bool IsOld(Offset unit) const { return std::binary_search(old_.begin(), old_.end(), unit); }
  // The adopted units that can be allocated.
  std::vector<Offset> FreeOldUnits() {
    std::vector<Offset> units = TakeAll(*arena_);
    std::erase_if(units, [this](Offset unit) { return !IsOld(unit); });
    return units;
  }

  TestArena memory_;
  std::unique_ptr<Pool> pool_;
  std::vector<Offset> old_;
  std::unique_ptr<UnitArena> arena_;
};

TEST_F(UnfinishedArenaTest, AllocatesFromFreshChunksAlone) {
  EXPECT_TRUE(pool_->finding_space());
  std::set<Offset> fresh;
  for (size_t i = 0; i < 2 * kPerChunk; ++i) {
    const Offset unit = arena_->Allocate(ReservePolicy::kKeep);
    ASSERT_NE(unit, 0u);
    EXPECT_FALSE(IsOld(unit)) << unit;
    EXPECT_TRUE(fresh.insert(unit).second);
  }
  EXPECT_EQ(arena_->used_units(), old_.size() + fresh.size());
  EXPECT_EQ(arena_->Mark(old_[0]), MarkResult::kMarked);
  arena_->FinishMark();
  EXPECT_FALSE(pool_->finding_space());
  EXPECT_EQ(arena_->used_units(), 1 + fresh.size());
  EXPECT_THAT(FreeOldUnits(), ::testing::Not(::testing::Contains(old_[0])));
}

// A unit allocated since is not part of what is being found: its owner may have freed it by now.
TEST_F(UnfinishedArenaTest, MarksNothingInFreshChunks) {
  const Offset fresh = arena_->Allocate(ReservePolicy::kKeep);
  arena_->Free(fresh);
  EXPECT_EQ(arena_->Mark(fresh), MarkResult::kFinished);
  EXPECT_EQ(arena_->Mark(fresh), MarkResult::kFinished);
  arena_->FinishMark();
  EXPECT_EQ(arena_->Mark(old_[5]), MarkResult::kNotAUnit) << "its chunk went back to the pool";
  EXPECT_EQ(arena_->used_units(), 0u);
  EXPECT_EQ(arena_->Allocate(ReservePolicy::kKeep), fresh);
}

TEST_F(UnfinishedArenaTest, WhatIsFreedMeanwhileEndsFreeInAnyOrder) {
  const std::vector<Offset> freed = {old_[3], old_[40], old_[70]};
  EXPECT_EQ(arena_->Mark(freed[0]), MarkResult::kMarked);
  for (const Offset unit : freed) arena_->Free(unit);
  EXPECT_EQ(arena_->Mark(freed[1]), MarkResult::kMarked);
  for (const Offset unit : old_) {
    if (std::find(freed.begin(), freed.end(), unit) == freed.end()) arena_->Mark(unit);
  }
  EXPECT_EQ(arena_->used_units(), old_.size() - freed.size());
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(IsOld(arena_->Allocate(ReservePolicy::kKeep)));
  arena_->FinishMark();
  EXPECT_THAT(FreeOldUnits(), UnorderedElementsAreArray(freed));
}

TEST_F(UnfinishedArenaTest, WhatIsHeldStaysInUseUntilItIsFreed) {
  const Offset moved = old_[1];
  const Offset unlinked = old_[2];
  const Offset early = old_[3];
  for (const Offset unit : {moved, unlinked, early}) arena_->Hold(unit);
  arena_->Free(early);
  arena_->FinishMark();
  EXPECT_EQ(arena_->used_units(), 2u);
  for (const Offset unit : TakeAll(*arena_)) {
    EXPECT_TRUE(unit != moved && unit != unlinked) << "a second owner";
  }
  arena_->Free(unlinked);
  EXPECT_EQ(arena_->Allocate(ReservePolicy::kUse), unlinked);
  arena_->Hold(moved);  // no effect by now
  arena_->Free(moved);
  EXPECT_EQ(arena_->Allocate(ReservePolicy::kUse), moved);
}

TEST_F(UnfinishedArenaTest, FinishesChunkByChunk) {
  ASSERT_THAT(arena_->UnfinishedChunks(), SizeIs(3));
  const Chunk second = ChunkOf(old_[kPerChunk]);
  for (size_t i = 0; i < kPerChunk; i += 2) arena_->Mark(old_[kPerChunk + i]);
  arena_->FinishMark(second);
  arena_->FinishMark(second);
  EXPECT_THAT(arena_->UnfinishedChunks(), SizeIs(2));
  EXPECT_TRUE(pool_->finding_space());
  EXPECT_EQ(arena_->used_units(), old_.size() - kPerChunk / 2);
  for (size_t i = 0; i < kPerChunk / 2; ++i) {
    EXPECT_EQ(ChunkOf(arena_->Allocate(ReservePolicy::kKeep)).index, second.index);
  }
  EXPECT_NE(ChunkOf(arena_->Allocate(ReservePolicy::kKeep)).index, second.index);
  // Frees are no longer deferred there, and elsewhere as before.
  arena_->Free(old_[kPerChunk]);
  arena_->Free(old_[0]);
  EXPECT_EQ(arena_->Allocate(ReservePolicy::kKeep), old_[kPerChunk]);
  arena_->FinishMark();
  EXPECT_THAT(arena_->UnfinishedChunks(), IsEmpty());
  EXPECT_FALSE(pool_->finding_space());
  EXPECT_EQ(arena_->used_units(), kPerChunk + 1);
}

TEST_F(UnfinishedArenaTest, UnfinishedChunksStayWhateverSeemsFree) {
  arena_->KeepChunks(5);
  EXPECT_EQ(arena_->total_units(), 5 * kPerChunk) << "three are there";
  arena_->KeepChunks(0);
  EXPECT_TRUE(arena_->GiveBackEmptyChunks()) << "the two that came";
  EXPECT_EQ(arena_->total_units(), 3 * kPerChunk);
  for (const Offset unit : old_) arena_->Free(unit);
  EXPECT_EQ(arena_->used_units(), 0u);
  EXPECT_FALSE(arena_->GiveBackEmptyChunks());
  EXPECT_EQ(arena_->SampleUnits(1).size(), old_.size());
  arena_->KeepChunks(2);
  arena_->FinishMark();
  EXPECT_EQ(arena_->total_units(), 2 * kPerChunk);
  EXPECT_EQ(arena_->used_units(), 0u);
}

class FullUnfinishedArenaTest : public UnfinishedArenaTest {
 protected:
  FullUnfinishedArenaTest() : UnfinishedArenaTest(64 << 10, 3) {}
};

// A failed allocation does not mean a full pool while something is unfinished, and is not
// remembered.
TEST_F(FullUnfinishedArenaTest, ServesAtOnceWhatAFinishedChunkHas) {
  for (const Offset unit : old_) arena_->Mark(unit);
  arena_->Unmark(old_[7]);
  arena_->Free(old_[kPerChunk]);
  EXPECT_THAT(TakeAll(*arena_), Each(::testing::Truly([this](Offset u) { return !IsOld(u); })));
  for (int i = 0; i < 200; ++i) ASSERT_EQ(arena_->Allocate(ReservePolicy::kUse), 0u);
  ASSERT_TRUE(pool_->finding_space());
  arena_->FinishMark(ChunkOf(old_[0]));
  EXPECT_EQ(arena_->Allocate(ReservePolicy::kUse), old_[7]);
  EXPECT_EQ(arena_->Allocate(ReservePolicy::kUse), 0u);
  arena_->FinishMark();
  EXPECT_EQ(arena_->Allocate(ReservePolicy::kUse), old_[kPerChunk]);
  EXPECT_FALSE(pool_->finding_space());
  EXPECT_EQ(arena_->Allocate(ReservePolicy::kUse), 0u);
}

// A chunk of another arena that turns out to be empty is used here.
TEST_F(FullUnfinishedArenaTest, AnotherArenaFindsAChunkThatTurnsOutEmpty) {
  UnitArena other(*pool_, ChunkUse::kRecords, 1024);
  const size_t before = TakeAll(other).size();
  for (int i = 0; i < 200; ++i) ASSERT_EQ(other.Allocate(ReservePolicy::kUse), 0u);
  for (size_t i = kPerChunk; i < old_.size(); ++i) arena_->Mark(old_[i]);
  arena_->FinishMark();
  EXPECT_EQ(TakeAll(other).size(), 8192u / 1024) << before;
}

TEST_F(UnfinishedArenaTest, AnArenaThatGoesLeavesNothingToFind) {
  arena_.reset();
  EXPECT_FALSE(pool_->finding_space());
}

using UnfinishedArenaDeathTest = UnfinishedArenaTest;

TEST_F(UnfinishedArenaDeathTest, RefusesToFreeTwice) {
  arena_->Mark(old_[0]);
  arena_->Free(old_[0]);
  EXPECT_DEATH(arena_->Free(old_[0]), "free of a unit that is free");
  EXPECT_DEATH(arena_->Free(old_[1] + 16), "free where no unit begins");
  arena_->FinishMark();
  arena_->KeepChunks(1);
  EXPECT_DEATH(
      {
        for (int i = 0; i < 40; ++i) arena_->Free(old_[0]);
      },
      "free of a unit that is free|free of a unit of another arena");
}

// Writers allocate and free, among others units from before the restart; one thread marks what is
// linked and finishes chunk by chunk. `links` is the tree: if a writer unlinks a unit before the
// marking reaches it, only Hold reports the unit, whose Free comes later, before or after its chunk
// is finished.
class UnfinishedArenaThreadsTest : public UnfinishedArenaTest {
 protected:
  static constexpr size_t kChunks = 200;
  static constexpr int kWriters = 3;

  UnfinishedArenaThreadsTest() : UnfinishedArenaTest(4 << 20, kChunks), links_(old_.size()) {
    std::mt19937 random(7);
    for (size_t i = 0; i < old_.size(); ++i) links_[i] = random() % 4 == 0 ? 0 : old_[i];
  }

  // Unlinks some of the old units, and frees each after a delay of its own; allocates and frees
  // others.
  void Write(int writer) {
    std::mt19937 random(static_cast<unsigned>(writer) + 1);
    std::vector<Offset> retired;
    std::vector<Offset> own;
    WaitForAll();
    for (size_t i = static_cast<size_t>(writer); i < links_.size(); i += kWriters) {
      if (random() % 16 == 0) std::this_thread::yield();
      if (random() % 2 == 0) Unlink(i, &retired);
      if (retired.size() > random() % 50) Free(&retired);
      const Offset unit = arena_->Allocate(ReservePolicy::kKeep);
      if (unit != 0) {
        *pool_->At<uint64_t>(unit) = unit ^ static_cast<uint64_t>(writer);
        own.push_back(unit);
      }
      if (own.size() > 20) {
        std::swap(own[random() % own.size()], own.back());
        wrong_ += *pool_->At<uint64_t>(own.back()) != (own.back() ^ static_cast<uint64_t>(writer));
        Free(&own);
      }
    }
    while (!retired.empty()) Free(&retired);
    const std::lock_guard lock(mutex_);
    kept_.insert(own.begin(), own.end());
  }

  void Unlink(size_t i, std::vector<Offset>* retired) {
    const Offset unit = links_[i].load();
    if (unit == 0) return;
    arena_->Hold(unit);
    links_[i].store(0);
    // A unit belongs to the writer until it frees it: it must not be allocated to another thread
    // meanwhile.
    *pool_->At<uint64_t>(unit) = ~unit;
    retired->push_back(unit);
  }

  void Free(std::vector<Offset>* units) {
    const Offset unit = units->back();
    units->pop_back();
    if (*pool_->At<uint64_t>(unit) == ~unit) ++retired_whole_;
    arena_->Free(unit);
  }

  void Sweep() {
    WaitForAll();
    for (const Chunk& chunk : arena_->UnfinishedChunks()) {
      for (const auto& link : links_) {
        const Offset unit = link.load();
        if (unit != 0 && unit - chunk.begin < chunk.bytes) arena_->Mark(unit);
      }
      arena_->FinishMark(chunk);
      std::this_thread::yield();
    }
  }

  void WaitForAll() {
    ++begun_;
    while (begun_ < kWriters + 1) std::this_thread::yield();
  }

  std::atomic<int> begun_{0};
  std::vector<std::atomic<Offset>> links_;
  std::mutex mutex_;
  std::set<Offset> kept_;  // by writers
  std::atomic<uint64_t> wrong_{0};
  std::atomic<uint64_t> retired_whole_{0};
};

TEST_F(UnfinishedArenaThreadsTest, EndAsTheModelSays) {
  const auto linked = [this] {
    std::set<Offset> units;
    for (const auto& link : links_) {
      if (link != 0) units.insert(link);
    }
    return units;
  };
  const size_t linked_before = linked().size();
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([this, writer] { Write(writer); });
  }
  threads.emplace_back([this] { Sweep(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(pool_->finding_space());
  EXPECT_EQ(wrong_, 0u);
  std::set<Offset> used = linked();
  EXPECT_EQ(retired_whole_, linked_before - used.size()) << "a retired unit was given to another";
  used.merge(kept_);
  EXPECT_EQ(arena_->used_units(), used.size());
  for (const Offset unit : TakeAll(*arena_)) {
    EXPECT_FALSE(used.contains(unit)) << unit << " has a second owner";
  }
}

}  // namespace
}  // namespace lodgekv::pmem
