// The seal of a cleanly closed pool file, and that a refused pool keeps it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/pmem/internal/pool_header.h"
#include "index/pmem/pool.h"
#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::pmem {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBytes = uint64_t{16} << 20;
constexpr size_t kChunks = 40;

class PoolSealTest : public ::testing::TestWithParam<unsigned> {
 protected:
  PoolSealTest() {
    options_.path = dir_ / "pool";
    options_.size_bytes = kBytes;
    options_.allow_volatile_medium = true;
    options_.threads = GetParam();
    PoolIdentity identity;
    identity.engine = "test";
    auto pool = Take(Pool::Create(options_, identity));
    for (size_t i = 0; i < kChunks; ++i) {
      const ChunkUse use = i % 2 == 0 ? ChunkUse::kNodes : ChunkUse::kLogs;
      chunks_.push_back(*pool->AcquireChunk(use, 256, ReservePolicy::kKeep));
      pool->medium().StoreZeros(pool->At<char>(chunks_[i].begin), chunks_[i].bytes);
      pool->medium().Store(*pool->At<Word>(chunks_[i].begin), i + 1);
    }
    EXPECT_TRUE(pool->Close(true).ok());
  }

  static std::unique_ptr<Pool> Take(absl::StatusOr<std::unique_ptr<Pool>> pool) {
    EXPECT_TRUE(pool.ok()) << pool.status();
    return *std::move(pool);
  }

  void Flip(Offset offset) const {
    std::fstream file(options_.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char flipped = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(flipped);
  }

  // Our header and the chunk table, as they are in the file.
  std::string Header() const {
    std::ifstream file(options_.path, std::ios::binary);
    const std::string all(std::istreambuf_iterator<char>(file), {});
    return all.substr(all.find("LodgeKV1"), PoolHeader::BytesFor(kBytes / chunks_[0].bytes));
  }

  const TempDir dir_;
  PoolOptions options_;
  std::vector<Chunk> chunks_;
};

TEST_P(PoolSealTest, VouchesForEveryChunk) {
  EXPECT_TRUE(Take(Pool::Open(options_))->Close(true).ok());
  for (const Chunk& chunk : chunks_) {
    Flip(chunk.begin + chunk.bytes - 1);
    const absl::Status status = Pool::Open(options_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("in chunk ", chunk.index, " ")));
    Flip(chunk.begin + chunk.bytes - 1);
  }
  EXPECT_TRUE(Take(Pool::Open(options_))->was_clean());
}

TEST_P(PoolSealTest, NamesTheFirstOfSeveralDamagedChunks) {
  std::set<uint32_t> rows;
  for (const size_t i : {33, 7, 8, 21}) {
    Flip(chunks_[i].begin);
    rows.insert(chunks_[i].index);
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Pool::Open(options_).status().message(),
                HasSubstr(absl::StrCat("in chunk ", *rows.begin(), " ")));
  }
}

// None of its bits change, whether the caller refuses the pool or its damage does.
TEST_P(PoolSealTest, OfARefusedPoolStays) {
  const std::string before = Header();
  Flip(chunks_[3].begin);
  std::string engine;
  const absl::Status refused = Pool::Open(options_, [&](const PoolIdentity& identity) {
                                 engine = identity.engine;
                                 return absl::FailedPreconditionError("another engine's");
                               }).status();
  EXPECT_EQ(refused.message(), "another engine's");
  EXPECT_EQ(engine, "test");
  EXPECT_EQ(Header(), before);
  EXPECT_EQ(Pool::Open(options_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Header(), before);
  Flip(chunks_[3].begin);
  auto pool = Take(Pool::Open(options_, [](const PoolIdentity&) { return absl::OkStatus(); }));
  EXPECT_TRUE(pool->was_clean());
  EXPECT_NE(Header(), before) << "a pool in use is not closed cleanly";
}

// --- verified at use ---

class PoolSealAtUseTest : public PoolSealTest {
 protected:
  PoolSealAtUseTest() { options_.verify_at_use = true; }

  // What Open says of the same pool when it verifies.
  std::string MessageOfOpen() const {
    PoolOptions options = options_;
    options.verify_at_use = false;
    return std::string(Pool::Open(options).status().message());
  }
};

TEST_P(PoolSealAtUseTest, RefusesWhatOpenWouldRefuseAndLeavesItSo) {
  const std::string before = Header();
  for (const size_t i : {size_t{0}, size_t{7}, kChunks - 1}) {
    Flip(chunks_[i].begin + chunks_[i].bytes - 1);
    const std::string expected = MessageOfOpen();
    for (int round = 0; round < 2; ++round) {
      auto pool = Take(Pool::Open(options_));
      for (const Chunk& chunk : chunks_) {
        const absl::Status status = pool->contents().EnsureVerified(chunk.begin + 100);
        EXPECT_EQ(status.ok(), chunk.index != chunks_[i].index);
        EXPECT_EQ(status.message(), status.ok() ? "" : expected);
      }
      const absl::Status status = pool->contents().FinishVerify();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      EXPECT_EQ(status.message(), expected);
      // However it is closed.
      EXPECT_TRUE(pool->Close(/*clean=*/round == 0).ok());
      EXPECT_EQ(Header(), before) << "the reason to refuse it must stay";
    }
    Flip(chunks_[i].begin + chunks_[i].bytes - 1);
  }
}

TEST_P(PoolSealAtUseTest, NamesTheFirstOfSeveralDamagedChunks) {
  std::set<uint32_t> rows;
  for (const size_t i : {33, 7, 8, 21}) {
    Flip(chunks_[i].begin);
    rows.insert(chunks_[i].index);
  }
  auto pool = Take(Pool::Open(options_));
  EXPECT_FALSE(pool->contents().EnsureVerified(chunks_[33].begin).ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(pool->contents().FinishVerify().message(),
                HasSubstr(absl::StrCat("in chunk ", *rows.begin(), " ")));
  }
}

TEST_P(PoolSealAtUseTest, IsInUseOnceAllIsVerified) {
  const std::string before = Header();
  auto pool = Take(Pool::Open(options_));
  EXPECT_TRUE(pool->was_clean());
  const uint64_t next = pool->PeekSequence();
  ASSERT_TRUE(pool->contents().FinishVerify().ok());
  EXPECT_NE(Header(), before);
  EXPECT_EQ(pool->TakeSequence(1), next);
  pool->medium().Store(*pool->At<Word>(chunks_[2].begin), 77);
  ASSERT_TRUE(pool->Close(true).ok());
  pool = Take(Pool::Open(options_));
  EXPECT_TRUE(pool->was_clean());
  EXPECT_TRUE(pool->contents().FinishVerify().ok()) << "what was stored is sealed";
  EXPECT_GT(pool->PeekSequence(), next);
}

// A tree that answers at once: some chunks are verified and written, others are not accessed before
// it is closed cleanly, and damage there is still found later.
TEST_P(PoolSealAtUseTest, WhatWasNeverVerifiedKeepsItsChecksum) {
  Flip(chunks_[9].begin + 5);
  auto pool = Take(Pool::Open(options_));
  pool->BeginUse();
  ASSERT_TRUE(pool->contents().EnsureVerified(chunks_[2].begin).ok());
  pool->medium().Store(*pool->At<Word>(chunks_[2].begin), 77);
  pool->ReleaseChunk(chunks_[4].index);
  ASSERT_TRUE(pool->Close(true).ok());
  const std::string message = MessageOfOpen();
  EXPECT_THAT(message, HasSubstr(absl::StrCat("in chunk ", chunks_[9].index, " ")));
  Flip(chunks_[9].begin + 5);
  EXPECT_EQ(MessageOfOpen(), "");
}

// The pool's own calls remove the seal before they change what it covers.
TEST_P(PoolSealAtUseTest, IsPutToUseByWhatChangesIt) {
  const auto use = [this](const auto& change) {
    auto pool = Take(Pool::Open(options_));
    change(*pool);
    EXPECT_TRUE(pool->Close(false).ok());
    auto found = Take(Pool::Open(options_));
    EXPECT_FALSE(found->was_clean());
    EXPECT_TRUE(found->Close(true).ok());
  };
  use([](Pool& pool) {
    EXPECT_TRUE(pool.AcquireChunk(ChunkUse::kRecords, 64, ReservePolicy::kKeep).ok());
  });
  use([this](Pool& pool) { pool.ReleaseChunk(chunks_[0].index); });
  use([](Pool& pool) { pool.CommitLarge(pool.ReserveLarge(9000, ReservePolicy::kKeep)); });
  use([](Pool& pool) { pool.FreeLarge(pool.LargeObjects().front()); });
  use([](Pool& pool) { pool.TakeSequence(1); });
  use([](Pool& pool) { pool.PersistAppliedIndex(pool.applied_index() + 1); });
}

TEST_P(PoolSealAtUseTest, ASweepVerifiesEachChunkOnce) {
  auto pool = Take(Pool::Open(options_));
  ASSERT_TRUE(pool->contents().EnsureVerified(chunks_[5].begin).ok());
  std::atomic<size_t> verified{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (const Chunk& chunk : chunks_)
        EXPECT_TRUE(pool->contents().EnsureVerified(chunk.begin).ok());
    });
    threads.emplace_back([&] {
      for (;;) {
        const absl::StatusOr<bool> more = pool->contents().VerifySome();
        ASSERT_TRUE(more.ok()) << more.status();
        if (!*more) return;
        ++verified;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(verified, kChunks);
  // None is verified again.
  pool->BeginUse();
  for (const Chunk& chunk : chunks_) {
    pool->medium().Store(*pool->At<Word>(chunk.begin), 77);
    EXPECT_TRUE(pool->contents().EnsureVerified(chunk.begin).ok());
  }
  EXPECT_TRUE(pool->contents().FinishVerify().ok());
}

INSTANTIATE_TEST_SUITE_P(Threads, PoolSealAtUseTest, ::testing::Values(0, 1, 5));
INSTANTIATE_TEST_SUITE_P(Threads, PoolSealTest, ::testing::Values(0, 1, 5));

}  // namespace
}  // namespace lodgekv::pmem
