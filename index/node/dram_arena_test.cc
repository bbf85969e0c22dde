#include "index/node/dram_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace lodgekv {
namespace {

using Piece = std::pair<char*, size_t>;

// Zeroed, aligned; filled so that an overlap with a later piece shows.
void* TakeAndFill(DramArena& arena, size_t bytes) {
  auto* piece = static_cast<char*>(arena.Allocate(bytes));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
  EXPECT_TRUE(std::all_of(piece, piece + bytes, [](char c) { return c == 0; })) << bytes;
  std::memset(piece, 0x5a, bytes);
  return piece;
}

TEST(DramArenaTest, ZeroedAlignedAndApart) {
  DramArena arena;
  uint64_t taken = 0;
  for (const size_t bytes : {1, 63, 64, 65, 1000, 60000, 100000, 5 << 20, 64, 3}) {
    TakeAndFill(arena, bytes);
    taken += (bytes + 63) / 64 * 64;
    EXPECT_EQ(arena.used_bytes(), taken);
  }
}

TEST(DramArenaTest, LargerThanAnyBlock) {
  DramArena arena;
  auto* piece = static_cast<char*>(arena.Allocate(size_t{100} << 20));
  piece[0] = piece[(size_t{100} << 20) - 1] = 1;
  EXPECT_EQ(static_cast<char*>(arena.Allocate(64))[0], 0);
}

TEST(DramArenaTest, ThreadsGetPiecesOfTheirOwn) {
  DramArena arena;
  constexpr int kThreads = 4;
  std::vector<std::vector<Piece>> pieces(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 2000; ++i) {
        const size_t bytes = 64 * (1 + i % 7);
        pieces[t].emplace_back(static_cast<char*>(TakeAndFill(arena, bytes)), bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Piece> all;
  for (const auto& some : pieces) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 1; i < all.size(); ++i) {
    ASSERT_LE(all[i - 1].first + all[i - 1].second, all[i].first);
  }
}

TEST(DramArenaTest, TakesOverWhatAnotherHandedOut) {
  DramArena arena;
  DramArena small;
  DramArena large;
  TakeAndFill(arena, 64);
  auto* here = static_cast<char*>(TakeAndFill(small, 3 << 20));
  auto* there = static_cast<char*>(TakeAndFill(large, 64));
  arena.Take(small);
  arena.Take(large);
  EXPECT_EQ(arena.used_bytes(), 128u + (3u << 20));
  EXPECT_EQ(small.used_bytes(), 0u);
  TakeAndFill(arena, 64);
  TakeAndFill(small, 64);  // it starts with a new block
  EXPECT_EQ(here[(3 << 20) - 1], 0x5a);
  EXPECT_EQ(there[63], 0x5a);
}

}  // namespace
}  // namespace lodgekv
