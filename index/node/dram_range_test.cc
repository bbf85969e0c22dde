#include "index/node/dram_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <thread>
#include <vector>

namespace lodgekv {
namespace {

// Zeroed, aligned; filled so that an overlap with a later piece shows.
char* TakeAndFill(DramRange& range, size_t bytes) {
  auto* piece = static_cast<char*>(range.Allocate(bytes));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
  EXPECT_TRUE(std::all_of(piece, piece + bytes, [](char c) { return c == 0; })) << bytes;
  std::memset(piece, 0x5a, bytes);
  return piece;
}

TEST(DramRangeTest, ZeroedAlignedAndInOrder) {
  DramRange range;
  uint64_t taken = 0;
  const char* end = nullptr;
  // From less than a page to more than the range grows by at once.
  for (const size_t bytes : {1, 64, 65, 4096, 60000, 100000, 5 << 20, 3, 100 << 20, 64}) {
    const char* piece = TakeAndFill(range, bytes);
    if (end != nullptr) {
      EXPECT_EQ(piece, end);
    }
    const size_t whole = (bytes + 63) / 64 * 64;
    end = piece + whole;
    taken += whole;
    EXPECT_EQ(range.used_bytes(), taken);
  }
}

TEST(DramRangeTest, ANumberNamesEachPlace) {
  DramRange range;
  std::set<uint32_t> numbers;
  for (int i = 0; i < 1000; ++i) {
    auto* piece = static_cast<char*>(range.Allocate(4096));
    for (size_t at = 0; at < 4096; at += 40) {
      const uint32_t number = range.NumberOf(piece + at);
      EXPECT_NE(number, 0u);
      EXPECT_EQ(range.At(number), piece + at);
      EXPECT_TRUE(numbers.insert(number).second);
    }
  }
}

TEST(DramRangeTest, TakesNoMemoryBeforeItIsUsed) {
  std::vector<DramRange> ranges(16);  // of half a TiB of addresses
  for (DramRange& range : ranges) TakeAndFill(range, 64);
}

TEST(DramRangeTest, SaysWhenItIsAtItsEnd) {
  DramRange range;
  EXPECT_THROW((void)range.Allocate(size_t{32} << 30), std::bad_alloc);
  TakeAndFill(range, 64);
}

TEST(DramRangeTest, ThreadsGetPiecesOfTheirOwn) {
  DramRange range;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < 2000; ++i) TakeAndFill(range, 64 * (1 + i % 7));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(range.used_bytes(), 4 * 64 * (2000 / 7 * 28 + 1 + 2 + 3 + 4 + 5));
}

}  // namespace
}  // namespace lodgekv
