#include "index/pmem/record_slab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv::pmem {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

TEST(RecordSlabTest, WastesAtMostAQuarterAndHoldsWhatWasAsked) {
  TestArena memory(16 << 20, 256 << 10);
  auto pool = memory.Create();
  RecordSlab slab(*pool);
  for (uint64_t bytes = 1; bytes <= 65536; bytes = bytes < 4096 ? bytes + 1 : bytes + 97) {
    const Offset record = slab.Allocate(bytes, ReservePolicy::kKeep);
    ASSERT_NE(record, 0u) << bytes;
    EXPECT_FALSE(slab.IsLarge(bytes));
    EXPECT_EQ(record % 16, 0u);
    const uint64_t space = slab.SpaceAt(record);
    EXPECT_GE(space, bytes);
    EXPECT_LE(space, std::max<uint64_t>(32, bytes + std::max<uint64_t>(15, bytes / 4)));
    EXPECT_EQ(slab.used_bytes(), space);
    slab.Free(record);
  }
  EXPECT_EQ(slab.used_bytes(), 0u);
  EXPECT_TRUE(slab.IsLarge(65537));
}

TEST(RecordSlabTest, SpaceAtIsSafeForAnyOffset) {
  TestArena memory(256 << 10);
  auto pool = memory.Create();
  RecordSlab slab(*pool);
  UnitArena nodes(*pool, ChunkUse::kNodes, 256);
  const Offset node = nodes.Allocate(ReservePolicy::kKeep);
  const Offset record = slab.Allocate(96, ReservePolicy::kKeep);
  const Offset large = slab.Allocate(9000, ReservePolicy::kKeep);
  EXPECT_EQ(slab.SpaceAt(record), 96u);
  EXPECT_GE(slab.SpaceAt(large), 9000u);
  for (const Offset wrong : {Offset{0}, record + 16, node, large + 16, ~Offset{0},
                             Offset{256 << 10}, pool->FindChunk(record).begin + 8192 - 32}) {
    EXPECT_EQ(slab.SpaceAt(wrong), 0u) << wrong;
  }
}

TEST(RecordSlabTest, MarkFindsRecordsAndFreesTheRest) {
  TestArena memory(512 << 10);
  std::vector<Offset> kept;
  uint64_t used = 0;
  {
    auto pool = memory.Create();
    RecordSlab slab(*pool);
    for (int i = 0; i < 200; ++i) {
      const Offset record = slab.Allocate(30 + 8 * i, ReservePolicy::kKeep);
      if (i % 3 != 0) continue;
      kept.push_back(record);
      used += slab.SpaceAt(record);
    }
    for (int i = 0; i < 3; ++i) {
      const Offset large = slab.Allocate(20'000, ReservePolicy::kKeep);
      slab.Commit(large);
      if (i != 1) continue;
      kept.push_back(large);
      used += slab.SpaceAt(large);
    }
    // Not published: gone after the crash.
    EXPECT_NE(slab.Allocate(20'000, ReservePolicy::kKeep), 0u);
  }
  auto pool = memory.Open();
  RecordSlab slab(*pool);
  slab.Adopt();
  for (const Offset record : kept) EXPECT_EQ(slab.Mark(record), UnitArena::MarkResult::kMarked);
  EXPECT_EQ(slab.Mark(kept.back()), UnitArena::MarkResult::kTwice);
  EXPECT_EQ(slab.Mark(kept.front()), UnitArena::MarkResult::kTwice);
  EXPECT_EQ(slab.Mark(kept.front() + 16), UnitArena::MarkResult::kNotAUnit);
  EXPECT_EQ(slab.Mark(0), UnitArena::MarkResult::kNotAUnit);
  slab.FinishMark();
  EXPECT_EQ(slab.used_bytes(), used);
  for (const Offset record : kept) slab.Free(record);
  EXPECT_EQ(slab.used_bytes(), 0u);
  EXPECT_THAT(pool->LargeObjects(), IsEmpty());
}

TEST(RecordSlabTest, SpaceOfOneSizeServesAnotherOnceItIsFree) {
  TestArena memory(256 << 10);
  auto pool = memory.Create();
  RecordSlab slab(*pool);
  for (const uint64_t bytes : {32, 2000, 100, 9000, 1000, 20'000, 48}) {
    std::vector<Offset> records;
    uint64_t space = 0;
    while (const Offset record = slab.Allocate(bytes, ReservePolicy::kUse)) {
      slab.Commit(record);
      records.push_back(record);
      space += slab.SpaceAt(record);
    }
    // Less than a chunk and a record at the end of each stay empty.
    EXPECT_GT(space, pool->capacity_bytes() * 75 / 100) << bytes;
    for (const Offset record : records) slab.Free(record);
    EXPECT_EQ(slab.used_bytes(), 0u);
  }
}

// Each record carries its owner; two owners of one byte would show.
TEST(RecordSlabTest, AFullPoolServesFromLargerClasses) {
  TestArena memory(256 << 10);
  auto pool = memory.Create();
  RecordSlab slab(*pool);
  std::vector<Offset> records;
  for (Offset record; (record = slab.Allocate(160, ReservePolicy::kKeep)) != 0;) {
    records.push_back(record);
  }
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(slab.Allocate(128, ReservePolicy::kKeep), 0u);
  slab.Free(records.back());
  EXPECT_EQ(slab.Allocate(32, ReservePolicy::kKeep), 0u)
      << "five times the size: too great a waste";
  EXPECT_EQ(slab.Allocate(320, ReservePolicy::kKeep), 0u) << "does not fit";
  const Offset record = slab.Allocate(128, ReservePolicy::kKeep);
  EXPECT_EQ(record, records.back());
  EXPECT_EQ(slab.SpaceAt(record), 160u);
}

// Small and large records, as a restart finds them.
class UnfinishedSlabTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSmall = 96;
  static constexpr uint64_t kLarge = 20'000;

  UnfinishedSlabTest() : memory_(1 << 20), pool_(memory_.Create()) {
    RecordSlab before(*pool_);
    for (int i = 0; i < 5; ++i) {
      small_.push_back(before.Allocate(kSmall, ReservePolicy::kKeep));
      large_.push_back(before.Allocate(kLarge, ReservePolicy::kKeep));
      before.Commit(large_.back());
    }
    slab_ = std::make_unique<RecordSlab>(*pool_);
    slab_->Adopt();
  }

  uint64_t Used(uint64_t small, uint64_t large) const {
    return small * kSmall + large * slab_->SpaceAt(large_[1]);
  }

  TestArena memory_;
  std::unique_ptr<Pool> pool_;
  std::vector<Offset> small_;
  std::vector<Offset> large_;
  std::unique_ptr<RecordSlab> slab_;
};

// 0: never reached; 1: marked; 2: held; 3: marked, then freed; 4: freed, then marked.
TEST_F(UnfinishedSlabTest, DecidesOfEachRecordWhenItIsFinished) {
  using MarkResult = UnitArena::MarkResult;
  for (const auto* records : {&small_, &large_}) {
    EXPECT_EQ(slab_->Mark(records->at(1)), MarkResult::kMarked);
    EXPECT_EQ(slab_->Mark(records->at(1)), MarkResult::kTwice);
    slab_->Hold(records->at(2));
    EXPECT_EQ(slab_->Mark(records->at(3)), MarkResult::kMarked);
    slab_->Free(records->at(3));
    slab_->Free(records->at(4));
    EXPECT_EQ(slab_->Mark(records->at(4)), MarkResult::kMarked);
  }
  EXPECT_THAT(pool_->LargeObjects(), UnorderedElementsAreArray(large_)) << "not before the end";
  const uint64_t chunk_units = pool_->chunk_bytes() / kSmall;
  EXPECT_EQ(slab_->used_bytes(), Used(chunk_units - 2, 3));

  slab_->FinishLarge();
  EXPECT_THAT(pool_->LargeObjects(), UnorderedElementsAre(large_[1], large_[2]));
  EXPECT_TRUE(pool_->finding_space());
  ASSERT_EQ(slab_->UnfinishedChunks().size(), 1u);
  slab_->FinishMark(slab_->UnfinishedChunks()[0]);
  EXPECT_FALSE(pool_->finding_space());
  EXPECT_EQ(slab_->used_bytes(), Used(2, 2));
  for (const auto* records : {&small_, &large_}) {
    slab_->Free(records->at(1));
    slab_->Free(records->at(2));
  }
  EXPECT_EQ(slab_->used_bytes(), 0u);
  EXPECT_THAT(pool_->LargeObjects(), IsEmpty());
}

TEST_F(UnfinishedSlabTest, WhatWasTakenSinceIsNotBeingFound) {
  const Offset kept = slab_->Allocate(kLarge, ReservePolicy::kKeep);
  slab_->Commit(kept);
  const Offset gone = slab_->Allocate(kLarge, ReservePolicy::kKeep);
  slab_->Free(gone);
  EXPECT_EQ(slab_->SpaceAt(gone), 0u) << "freed at once";
  EXPECT_EQ(slab_->Mark(kept), UnitArena::MarkResult::kFinished);
  slab_->FinishMark();
  EXPECT_THAT(pool_->LargeObjects(), UnorderedElementsAre(kept));
  EXPECT_EQ(slab_->used_bytes(), slab_->SpaceAt(kept));
}

TEST_F(UnfinishedSlabTest, ASlabThatGoesLeavesNothingToFind) {
  slab_.reset();
  EXPECT_FALSE(pool_->finding_space());
}

using UnfinishedSlabDeathTest = UnfinishedSlabTest;

TEST_F(UnfinishedSlabDeathTest, RefusesToFreeALargeObjectTwice) {
  slab_->Free(large_[0]);
  EXPECT_DEATH(slab_->Free(large_[0]), "free of a large object that is free");
}

TEST(RecordSlabTest, ThreadsNeverShareSpace) {
  TestArena memory(2 << 20);
  auto pool = memory.Create();
  RecordSlab slab(*pool);
  std::atomic<uint64_t> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t + 10);
      std::map<Offset, uint64_t> held;
      for (int i = 0; i < 20'000; ++i) {
        if (random() % 5 < 3) {
          const uint64_t bytes =
              random() % 50 == 0 ? 3000 + random() % 20'000 : random() % 1500 + 1;
          const Offset record = slab.Allocate(bytes, ReservePolicy::kKeep);
          if (record == 0) continue;
          slab.Commit(record);
          std::memset(pool->At<char>(record), t + 1, bytes);
          held[record] = bytes;
        }
        while (!held.empty() && (held.size() > 120 || random() % 3 == 0)) {
          auto it = held.lower_bound(random() % (2 << 20));
          if (it == held.end()) it = held.begin();
          const char* bytes = pool->At<char>(it->first);
          for (uint64_t b = 0; b < it->second; ++b) failures += bytes[b] != t + 1;
          slab.Free(it->first);
          held.erase(it);
        }
      }
      for (const auto& [record, bytes] : held) slab.Free(record);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(slab.used_bytes(), 0u);
}

}  // namespace
}  // namespace lodgekv::pmem
