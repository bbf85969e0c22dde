// Pools that processes with and without durability `process` open in turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "index/pmem/internal/pool_header.h"
#include "index/pmem/pool.h"
#include "index/pmem/testing/arena_test_util.h"
#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::pmem {
namespace {

using ::testing::HasSubstr;

class UnflushedPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.path = dir_ / "pool";
    options_.size_bytes = uint64_t{8} << 20;
    options_.allow_volatile_medium = true;
  }

  std::unique_ptr<Pool> Open(bool process, bool create = false) {
    options_.process_durability = process;
    auto pool = create ? Pool::Create(options_, TestArena::Identity()) : Pool::Open(options_);
    EXPECT_TRUE(pool.ok()) << pool.status();
    return pool.ok() ? *std::move(pool) : nullptr;
  }
  // The process that opens it next without `process` flushes it all; not the one after that.
  void ExpectFlushedOnce() {
    EXPECT_TRUE(Open(false)->flush_at_open().done);
    EXPECT_FALSE(Open(false)->flush_at_open().done);
  }

  TempDir dir_{TempDir::Disk()};
  PoolOptions options_;
};

TEST_F(UnflushedPoolTest, IsFlushedByTheNextThatFlushes) {
  Open(true, /*create=*/true)->PersistAppliedIndex(1);  // and killed
  ExpectFlushedOnce();
  EXPECT_TRUE(Open(true)->Close(true).ok());
  EXPECT_TRUE(Open(true)->was_clean());
  ExpectFlushedOnce();
}

TEST_F(UnflushedPoolTest, IsNotThatOfOneThatFlushes) {
  Open(false, /*create=*/true)->PersistAppliedIndex(1);
  EXPECT_FALSE(Open(false)->flush_at_open().done);
}

TEST_F(UnflushedPoolTest, IsNotOneThatWasOnlyLookedAt) {
  EXPECT_TRUE(Open(false, /*create=*/true)->Close(true).ok());
  options_.verify_at_use = true;
  {
    auto pool = Open(false);
    ASSERT_TRUE(pool->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kKeep).ok());
    EXPECT_TRUE(pool->Close(true).ok());
  }
  EXPECT_TRUE(Open(true)->Close(true).ok());  // with a chunk that nobody has verified
  EXPECT_FALSE(Open(false)->flush_at_open().done);
}

TEST_F(UnflushedPoolTest, OnAVolatileMediumThereIsNothingToFlush) {
  const TempDir memory;
  options_.path = memory / "pool";
  Open(true, /*create=*/true)->PersistAppliedIndex(1);
  EXPECT_FALSE(Open(false)->flush_at_open().done);
}

TEST_F(UnflushedPoolTest, ComesFromAFailedSyncToo) {
  auto pool = Open(false, /*create=*/true);
  if (pool->medium_class() != MediumClass::kFile) GTEST_SKIP() << "no disk at " << dir_.path();
  // What cannot be synced takes the place of the file.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) == options_.path) {
      dup2(ends[0], std::stoi(entry.path().filename()));
    }
  }
  close(ends[0]);
  close(ends[1]);
  EXPECT_FALSE(pool->Close(true).ok());
  ExpectFlushedOnce();
}

TEST(UnflushedWordTest, IsRefusedIfItIsDamaged) {
  TestArena arena(64 << 10);
  arena.options().process_durability = true;
  ASSERT_NE(arena.Create(), nullptr);
  std::byte& damaged = arena.data()[offsetof(media::Header, unflushed_word) + 3];
  damaged ^= std::byte{4};
  const absl::Status status = arena.OpenError();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("unflushed word"));
  damaged ^= std::byte{4};
  EXPECT_NE(arena.Open(), nullptr);
}

}  // namespace
}  // namespace lodgekv::pmem
