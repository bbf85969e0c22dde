#include "bench/engine_bench/btree_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "bench/engine_bench/btree_target.h"

namespace lodgekv::bench {
namespace {

class BtreeMemoryTest : public testing::TestWithParam<BtreeMemory::Pages> {};

TEST_P(BtreeMemoryTest, GivesMemoryOfItsOwnAndTakesItBack) {
  constexpr size_t kPieces = 200'000;  // 50 MB: more than a region has
  constexpr size_t kBytes = 456;
  BtreeMemory memory(GetParam());
  std::vector<void*> pieces;
  for (size_t i = 0; i < kPieces; ++i) {
    pieces.push_back(memory.Allocate(kBytes));
    std::memset(pieces.back(), static_cast<int>(i), kBytes);
  }
  EXPECT_EQ(memory.bytes(), kPieces * kBytes);
  EXPECT_EQ(std::set<void*>(pieces.begin(), pieces.end()).size(), kPieces);
  for (size_t i = 0; i < kPieces; ++i) {
    const auto* bytes = static_cast<const unsigned char*>(pieces[i]);
    ASSERT_EQ(bytes[0], static_cast<unsigned char>(i));
    ASSERT_EQ(bytes[kBytes - 1], static_cast<unsigned char>(i));
    memory.Deallocate(pieces[i], kBytes);
  }
  EXPECT_EQ(memory.bytes(), 0);
}

TEST(HugePagesTest, AreUsedAgainBySize) {
  BtreeMemory memory(BtreeMemory::Pages::kHuge);
  void* small = memory.Allocate(256);
  void* large = memory.Allocate(512);
  memory.Deallocate(small, 256);
  EXPECT_NE(memory.Allocate(512), small);
  EXPECT_EQ(memory.Allocate(256), small);
  memory.Deallocate(large, 512);
  EXPECT_EQ(memory.Allocate(512), large);
}

TEST_P(BtreeMemoryTest, HoldsAMap) {
  BtreeTarget target(1, GetParam());
  EXPECT_EQ(target.id().engine,
            GetParam() == BtreeMemory::Pages::kHuge ? "btree_map_huge_pages" : "btree_map");
  OpBatch batch;
  batch.workload = Workload::kInsert;
  for (uint64_t i = 0; i < 100'000; ++i) batch.numbers.push_back(i * 7919 % 100'003 << 3);
  target.Run(batch, nullptr);
  EXPECT_GT(target.GetMemoryUse().dram_bytes, 1'600'000u);
  for (const Workload workload : {Workload::kRead, Workload::kReadChained, Workload::kDelete}) {
    batch.workload = workload;
    const Tally tally = target.Run(batch, nullptr);
    EXPECT_EQ(tally.found, batch.size());
    EXPECT_EQ(tally.wrong_values, 0u);
  }
  EXPECT_LT(target.GetMemoryUse().dram_bytes, 1'000u);
}

INSTANTIATE_TEST_SUITE_P(Pages, BtreeMemoryTest,
                         testing::Values(BtreeMemory::Pages::kHeap, BtreeMemory::Pages::kHuge));

}  // namespace
}  // namespace lodgekv::bench
