// The seal of a cleanly closed pool file, and that a refused pool keeps it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>
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

class PoolSeal : public ::testing::TestWithParam<unsigned> {
 protected:
  PoolSeal() {
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

TEST_P(PoolSeal, VouchesForEveryChunk) {
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

TEST_P(PoolSeal, NamesTheFirstOfSeveralDamagedChunks) {
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

// None of its bits change.
TEST_P(PoolSeal, OfARefusedPoolStays) {
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

INSTANTIATE_TEST_SUITE_P(Threads, PoolSeal, ::testing::Values(0, 1, 5));

}  // namespace
}  // namespace lodgekv::pmem
