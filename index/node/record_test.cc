#include "index/node/record.h"

#include <gtest/gtest.h>

#include <string>

#include "index/cost.h"
#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv {
namespace {

using pmem::Offset;
using pmem::ReservePolicy;

constexpr uint64_t kVersion = 0x123456789;
constexpr uint64_t kExpiry = 1'900'000'000'000;

class RecordTest : public ::testing::Test {
 protected:
  StagedRecord Stage(std::string_view key, std::string_view value, uint64_t expiry = 0) {
    StagedRecord record = StageRecord(*pool_, slab_, key, value, expiry, ReservePolicy::kKeep);
    EXPECT_NE(record.offset, 0u);
    return record;
  }
  Offset Write(std::string_view key, std::string_view value, uint64_t expiry = 0) {
    StagedRecord record = Stage(key, value, expiry);
    FinishRecord(*pool_, record, kVersion);
    pool_->medium().Fence();
    return record.offset;
  }
  bool Sound(Offset offset) {
    RecordView view;
    return VerifyRecord(*pool_, slab_, offset, &view);
  }

  pmem::TestArena arena_{1 << 20};
  std::unique_ptr<pmem::Pool> pool_ = arena_.Create();
  pmem::RecordSlab slab_{*pool_};
};

TEST_F(RecordTest, ReadsBackWhatWasWritten) {
  using namespace std::string_literals;
  const std::string keys[] = {"k", "\0"s, "a key\0with zeros"s, std::string(300, 'x')};
  const std::string values[] = {"", "v", std::string(5000, '\xff'), "\0\0\0"s};
  for (const std::string& key : keys) {
    for (const std::string& value : values) {
      for (const uint64_t expiry : {uint64_t{0}, kExpiry}) {
        const Offset offset = Write(key, value, expiry);
        RecordView view;
        ASSERT_TRUE(VerifyRecord(*pool_, slab_, offset, &view));
        EXPECT_EQ(view.key, key);
        EXPECT_EQ(view.value, value);
        EXPECT_EQ(view.version, kVersion);
        EXPECT_EQ(view.expiry_unix_ms, expiry);
        EXPECT_EQ(ViewRecord(*pool_, offset).key.data(), view.key.data());
        EXPECT_EQ(KeyOfRecord(*pool_, offset), key);
      }
    }
  }
}

TEST_F(RecordTest, LargestKey) {
  const std::string key(65535, 'k');
  RecordView view;
  pmem::TestArena arena(1 << 22, 1 << 18);
  auto pool = arena.Create();
  pmem::RecordSlab slab(*pool);
  StagedRecord record = StageRecord(*pool, slab, key, "v", kExpiry, ReservePolicy::kKeep);
  FinishRecord(*pool, record, 1);
  ASSERT_TRUE(VerifyRecord(*pool, slab, record.offset, &view));
  EXPECT_EQ(view.key, key);
}

// The example of docs/media_format.md.
TEST_F(RecordTest, BytesAreAsDocumented) {
  const Offset offset = Write("key", "value", kExpiry);
  const auto* bytes = pool_->At<uint8_t>(offset);
  const auto word = [&](unsigned at, unsigned size) {
    uint64_t result = 0;
    for (unsigned i = 0; i < size; ++i) result |= uint64_t{bytes[at + i]} << (8 * i);
    return result;
  };
  EXPECT_EQ(word(0, 4), ViewRecord(*pool_, offset).crc);
  EXPECT_EQ(word(4, 2), 3u);
  EXPECT_EQ(word(6, 2), media::kRecordHasExpiry);
  EXPECT_EQ(word(8, 8), kVersion);
  EXPECT_EQ(word(16, 4), 5u);
  EXPECT_EQ(word(20, 4), 0u);
  EXPECT_EQ(word(24, 8), kExpiry);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(bytes) + 32, 8), "keyvalue");
  EXPECT_EQ(RecordBytes(3, 5, true), 40u);
  EXPECT_EQ(RecordBytes(3, 5, false), 32u);
}

TEST_F(RecordTest, EveryFlippedByteIsFound) {
  for (const uint64_t expiry : {uint64_t{0}, kExpiry}) {
    const Offset offset = Write("some key", "and a value", expiry);
    auto* bytes = pool_->At<uint8_t>(offset);
    for (uint64_t at = 0; at < RecordBytes(8, 11, expiry != 0); ++at) {
      for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
        bytes[at] ^= static_cast<uint8_t>(flip);
        EXPECT_FALSE(Sound(offset)) << "byte " << at << " xor " << flip;
        bytes[at] ^= static_cast<uint8_t>(flip);
      }
    }
    EXPECT_TRUE(Sound(offset));
  }
}

TEST_F(RecordTest, BoundToItsPlaceAndPool) {
  const Offset from = Write("key", "value");
  const Offset to = Write("key", "value");
  ASSERT_NE(from, to);
  std::memcpy(pool_->At<char>(to), pool_->At<char>(from), RecordBytes(3, 5, false));
  EXPECT_FALSE(Sound(to));

  pmem::TestArena other_arena(1 << 20);
  pmem::PoolIdentity identity = pmem::TestArena::Identity();
  identity.pool_id[0] = 1;
  auto other = other_arena.Create(identity);
  pmem::RecordSlab slab(*other);
  StagedRecord record = StageRecord(*other, slab, "key", "value", 0, ReservePolicy::kKeep);
  FinishRecord(*other, record, kVersion);
  RecordView view;
  ASSERT_TRUE(VerifyRecord(*other, slab, record.offset, &view));
  if (record.offset == from) {
    std::memcpy(pool_->At<char>(from), other->At<char>(record.offset), RecordBytes(3, 5, false));
    EXPECT_FALSE(Sound(from));
  }
}

TEST_F(RecordTest, UnfinishedIsNotSound) { EXPECT_FALSE(Sound(Stage("key", "value").offset)); }

TEST_F(RecordTest, AnyOffsetMayBeAsked) {
  const Offset offset = Write("key", "value");
  for (Offset at = 0; at < arena_.size() + 4096; at += 8) {
    if (at != offset) {
      ASSERT_FALSE(Sound(at)) << at;
    }
  }
  EXPECT_FALSE(Sound(UINT64_MAX - 15));
}

TEST_F(RecordTest, FinishFlushesEachLineOnceAndDoesNotFence) {
  // 64 bytes in a class of 64: one line.
  StagedRecord record = Stage("12345678", std::string(32, 'v'));
  Cost before = ThreadCost();
  FinishRecord(*pool_, record, 1);
  EXPECT_EQ((ThreadCost() - before).lines_flushed, 1u);
  EXPECT_EQ((ThreadCost() - before).fences, 0u);
  StagedRecord longer = Stage("12345678", std::string(256 - 32, 'v'));
  before = ThreadCost();
  FinishRecord(*pool_, longer, 1);
  EXPECT_EQ((ThreadCost() - before).lines_flushed, 4u);
}

TEST_F(RecordTest, ALargeOnesBodyIsDurableBeforeItsLockIsTaken) {
  const std::string value(20000, 'v');  // larger than a chunk
  const StagedRecord probe = Stage("key", value);
  ASSERT_TRUE(probe.large);
  Cost before = ThreadCost();
  StagedRecord record = Stage("key", value);
  EXPECT_GE((ThreadCost() - before).fences, 1u);
  before = ThreadCost();
  FinishRecord(*pool_, record, kVersion);
  EXPECT_EQ((ThreadCost() - before).lines_flushed, 1u);
  EXPECT_TRUE(Sound(record.offset));
}

// A reader of a damaged length must stay within the pool.
TEST_F(RecordTest, EveryFlippedBitOfAHeaderIsFoundWithoutReadingPastThePool) {
  const Offset offset = Write("key", std::string(5, 'v'), kExpiry);
  auto* bytes = pool_->At<uint8_t>(offset);
  for (size_t bit = 0; bit < 8 * 32; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const RecordView view = ViewRecord(*pool_, offset);
    EXPECT_LE(view.value.data() + view.value.size(), pool_->base() + pool_->bytes()) << bit;
    EXPECT_FALSE(RecordIsSound(*pool_, offset, view)) << bit;
    const std::string_view key = KeyOfRecord(*pool_, offset);
    EXPECT_LE(key.data() + key.size(), pool_->base() + pool_->bytes()) << bit;
    EXPECT_FALSE(Sound(offset)) << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
  EXPECT_TRUE(Sound(offset));
}

TEST_F(RecordTest, ADamagedKeysLengthAtThePoolsEndIsNotFollowed) {
  const Offset offset = (pool_->bytes() - 64) / 16 * 16;
  auto* header = pool_->At<media::RecordHeader>(offset);
  pool_->medium().Store(header->crc_and_lengths, uint64_t{8} << 32);
  EXPECT_EQ(KeyOfRecord(*pool_, offset).size(), 8u);
  pool_->medium().Store(header->crc_and_lengths, uint64_t{0xffff} << 32);
  EXPECT_TRUE(KeyOfRecord(*pool_, offset).empty());
}

TEST_F(RecordTest, NoRoom) {
  const StagedRecord record =
      StageRecord(*pool_, slab_, "key", std::string(2 << 20, 'v'), 0, ReservePolicy::kKeep);
  EXPECT_EQ(record.offset, 0u);
}

}  // namespace
}  // namespace lodgekv
