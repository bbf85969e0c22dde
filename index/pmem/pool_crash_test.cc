// Crash images of the pool's own protocols: creation, state changes, chunk rows, large objects,
// sealing. Before each fence and after each operation images of the medium are drawn, and opened.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "index/pmem/internal/pool_header.h"
#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv::pmem {
namespace {

constexpr size_t kBytes = 128 << 10;

// The traced medium of an arena: what is durable, and the words stored since, line by line.
class ShadowMedium : public Tracer {
 public:
  ShadowMedium(const std::byte* memory, bool strict) : memory_(memory), strict_(strict) {
    durable_.assign(memory, memory + kBytes);
  }

  void OnStore(const void* dst, size_t bytes, bool) override {
    const size_t begin = static_cast<const std::byte*>(dst) - memory_;
    for (size_t at = begin / 8 * 8; at < begin + bytes; at += 8) {
      uint64_t value;
      std::memcpy(&value, memory_ + at, 8);
      lines_[at / kLineBytes].stores.push_back({at, value});
    }
  }
  void OnFlush(const void* line) override {
    const size_t at = static_cast<const std::byte*>(line) - memory_;
    Line& l = lines_[at / kLineBytes];
    l.flushed = l.stores.size();
  }
  void OnFence() override {
    if (before_fence) before_fence();
    for (auto it = lines_.begin(); it != lines_.end();) {
      Line& line = it->second;
      for (size_t i = 0; i < line.flushed; ++i) Apply(durable_, line.stores[i]);
      line.stores.erase(line.stores.begin(), line.stores.begin() + line.flushed);
      line.flushed = 0;
      it = line.stores.empty() ? lines_.erase(it) : std::next(it);
    }
  }
  void OnCrashPoint(std::string_view) override {}
  bool OnCanary(std::string_view) override { return false; }

  // One image that a crash now may leave: of each line a prefix of its stores, or, if the medium
  // may tear lines, any words.
  void Draw(std::mt19937_64& random, std::byte* image) const {
    std::memcpy(image, durable_.data(), kBytes);
    for (const auto& [number, line] : lines_) {
      if (strict_) {
        for (const Stored& stored : line.stores) {
          if (random() % 2 == 0) Apply(image, stored);
        }
      } else {
        const size_t kept = random() % (line.stores.size() + 1);
        for (size_t i = 0; i < kept; ++i) Apply(image, line.stores[i]);
      }
    }
  }
  bool quiet() const { return lines_.empty(); }

  std::function<void()> before_fence;

 private:
  struct Stored {
    size_t at;
    uint64_t value;
  };
  struct Line {
    std::vector<Stored> stores;
    size_t flushed = 0;
  };
  template <class Image>
  static void Apply(Image& image, const Stored& stored) {
    std::memcpy(&image[stored.at], &stored.value, 8);
  }

  const std::byte* const memory_;
  const bool strict_;
  std::vector<std::byte> durable_;
  std::map<size_t, Line> lines_;
};

// What has been promised to the pool's user so far.
struct Promises {
  bool created = false;
  uint64_t sequence = 1;  // numbers below it were taken
  uint64_t applied_index = 0;
  uint64_t applied_in_flight = 0;
  bool engine_created = false;
  std::set<uint32_t> chunks;  // rows in use
  std::set<Offset> large;
  // The operation in flight may have taken effect.
  std::set<uint32_t> chunks_after;
  std::set<Offset> large_after;
};

class PoolCrashTest : public ::testing::TestWithParam<bool> {
 protected:
  PoolCrashTest() : arena_(kBytes), image_(kBytes), shadow_(arena_.data(), GetParam()) {
    arena_.options().strict_order = GetParam();
    arena_.options().tracer = &shadow_;
    shadow_.before_fence = [this] { CheckImages(); };
  }

  void CheckImages() {
    for (int i = 0; i < 8 && !HasFatalFailure(); ++i) {
      shadow_.Draw(random_, image_.data());
      CheckImage();
      ++images_;
    }
  }

  void CheckImage() {
    const auto opened = Pool::OpenArena(image_.options());
    if (!opened.ok()) {
      ASSERT_FALSE(promises_.created) << opened.status();
      ASSERT_EQ(opened.status().code(), absl::StatusCode::kDataLoss);
      return;
    }
    Pool& pool = **opened;
    ASSERT_GE(pool.PeekSequence(), promises_.sequence);
    const uint64_t applied = pool.applied_index();
    ASSERT_TRUE(applied == promises_.applied_index || applied == promises_.applied_in_flight);
    ASSERT_TRUE(pool.engine_created() || !promises_.engine_created);
    std::set<uint32_t> rows;
    for (const Chunk& chunk : pool.Chunks()) {
      rows.insert(chunk.index);
      ASSERT_EQ(chunk.unit_bytes, 256u);
      ASSERT_EQ(chunk.use, ChunkUse::kLogs);
    }
    ASSERT_TRUE(rows == promises_.chunks || rows == promises_.chunks_after);
    const std::vector<Offset> list = pool.LargeObjects();
    const std::set<Offset> large(list.begin(), list.end());
    ASSERT_TRUE(large == promises_.large || large == promises_.large_after);
    // A second crash immediately after.
    ASSERT_TRUE(Pool::OpenArena(image_.options()).ok());
  }

  // The operation is done: its promises hold in every image from here on.
  void Done() {
    EXPECT_TRUE(shadow_.quiet()) << "stored and not fenced";
    promises_.chunks = promises_.chunks_after;
    promises_.large = promises_.large_after;
    promises_.applied_index = promises_.applied_in_flight;
    CheckImages();
  }

  void Step(Pool& pool) {
    switch (random_() % 6) {
      case 0: {
        const uint64_t n = 1 + random_() % (3 << 20);
        promises_.sequence = pool.TakeSequence(n) + n;
        break;
      }
      case 1:
        ++promises_.applied_in_flight;
        pool.PersistAppliedIndex(promises_.applied_in_flight);
        break;
      case 2: Acquire(pool); break;
      case 3: Release(pool); break;
      case 4: AddLarge(pool); break;
      case 5: DropLarge(pool); break;
    }
    Done();
  }

  // The next row is the lowest free one.
  void Acquire(Pool& pool) {
    uint32_t row = 0;
    while (promises_.chunks.contains(row) || RowInLarge(pool, row)) ++row;
    promises_.chunks_after.insert(row);
    const auto chunk = pool.AcquireChunk(ChunkUse::kLogs, 256, ReservePolicy::kKeep);
    if (chunk.ok()) {
      ASSERT_EQ(chunk->index, row);
    } else {
      promises_.chunks_after.erase(row);
    }
  }

  static bool RowInLarge(const Pool& pool, uint32_t row) {
    for (const Offset offset : pool.LargeObjects()) {
      const uint64_t first = (offset - FirstChunk(pool)) / pool.chunk_bytes();
      if (row >= first && row < first + pool.LargeBytes(offset) / pool.chunk_bytes()) return true;
    }
    return false;
  }
  // Chunks begin directly after the table.
  static Offset FirstChunk(const Pool& pool) {
    const uint64_t rows = pool.capacity_bytes() / pool.chunk_bytes();
    return (PoolHeader::BytesFor(rows) + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  }

  void Release(Pool& pool) {
    if (promises_.chunks.empty()) return;
    const uint32_t row = *std::next(promises_.chunks.begin(), random_() % promises_.chunks.size());
    promises_.chunks_after.erase(row);
    pool.ReleaseChunk(row);
  }

  void AddLarge(Pool& pool) {
    const Offset offset = pool.ReserveLarge(1 + random_() % 20'000, ReservePolicy::kKeep);
    if (offset == 0) return;
    if (random_() % 3 == 0) {
      pool.FreeLarge(offset);
      return;
    }
    promises_.large_after.insert(offset);
    pool.CommitLarge(offset);
  }

  void DropLarge(Pool& pool) {
    if (promises_.large.empty()) return;
    const Offset offset = *std::next(promises_.large.begin(), random_() % promises_.large.size());
    promises_.large_after.erase(offset);
    pool.FreeLarge(offset);
  }

  TestArena arena_;
  TestArena image_;
  ShadowMedium shadow_;
  std::mt19937_64 random_{42};
  Promises promises_;
  uint64_t images_ = 0;
};

TEST_P(PoolCrashTest, KeepsItsPromisesInEveryImage) {
  auto pool = arena_.Create();
  promises_.created = true;
  Done();
  pool->MarkEngineCreated();
  promises_.engine_created = true;
  Done();
  for (int life = 0; life < 12 && !HasFatalFailure(); ++life) {
    for (int i = 0; i < 40 && !HasFatalFailure(); ++i) Step(*pool);
    if (life % 2 == 0) {
      ASSERT_TRUE(pool->Close(true).ok());
      Done();
    }
    pool.reset();
    pool = arena_.Open();
    ASSERT_NE(pool, nullptr);
    EXPECT_EQ(pool->was_clean(), life % 2 == 0);
    Done();
  }
  EXPECT_GT(images_, 5000u);
}

INSTANTIATE_TEST_SUITE_P(Order, PoolCrashTest, ::testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "LinesMayTear" : "LinesKeepTheirOrder");
});

}  // namespace
}  // namespace lodgekv::pmem
