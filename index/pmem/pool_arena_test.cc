#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "index/pmem/internal/pool_header.h"
#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv::pmem {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ArenaPoolTest, KeepsIdentityAndRoots) {
  TestArena arena(64 << 10);
  PoolIdentity identity = TestArena::Identity();
  identity.key_format = KeyFormat::kFixed64;
  identity.inline_pairs = true;
  std::array<uint8_t, 16> id;
  {
    auto pool = arena.Create(identity);
    id = pool->identity().pool_id;
    EXPECT_EQ(pool->engine_area().size(), 256u);
    for (const Word& word : pool->engine_area()) EXPECT_EQ(word.Load(), 0u);
    pool->medium().Store(pool->engine_area()[200], 77);
    EXPECT_TRUE(pool->Close(true).ok());
  }
  auto pool = arena.Open();
  EXPECT_TRUE(pool->was_clean());
  EXPECT_EQ(pool->identity().engine, "test");
  EXPECT_EQ(pool->identity().media_version, 7u);
  EXPECT_EQ(pool->identity().key_format, KeyFormat::kFixed64);
  EXPECT_TRUE(pool->identity().inline_pairs);
  EXPECT_EQ(pool->identity().pool_id, id);
  EXPECT_EQ(pool->crc_seed(), PoolHeader::SeedOf(id));
  EXPECT_EQ(pool->engine_area()[200].Load(), 77u);
}

TEST(ArenaPoolTest, EachPoolHasAnIdOfItsOwn) {
  TestArena a(64 << 10), b(64 << 10);
  EXPECT_NE(a.Create()->identity().pool_id, b.Create()->identity().pool_id);
}

TEST(ArenaPoolTest, RefusesWhatIsTooSmallOrNamedTooLong) {
  TestArena small(32 << 10);
  EXPECT_EQ(Pool::CreateArena(small.options(), TestArena::Identity()).status().code(),
            absl::StatusCode::kInvalidArgument);
  TestArena arena(64 << 10);
  PoolIdentity identity = TestArena::Identity();
  identity.engine = std::string(32, 'x');
  EXPECT_EQ(Pool::CreateArena(arena.options(), identity).status().code(),
            absl::StatusCode::kInvalidArgument);
  arena.options().chunk_bytes = 32 << 10;
  EXPECT_THAT(Pool::CreateArena(arena.options(), TestArena::Identity()).status().message(),
              HasSubstr("at least 4"));
}

TEST(ArenaPoolTest, CrashIsNotClean) {
  TestArena arena(64 << 10);
  arena.Create();
  EXPECT_FALSE(arena.Open()->was_clean());
  EXPECT_FALSE(arena.Open()->was_clean());
}

TEST(ArenaPoolTest, SequenceGoesOnExactlyAfterACloseAndJumpsAfterACrash) {
  TestArena arena(64 << 10);
  auto pool = arena.Create();
  EXPECT_EQ(pool->TakeSequence(1), 1u);
  EXPECT_EQ(pool->TakeSequence(10), 2u);
  EXPECT_EQ(pool->PeekSequence(), 12u);
  ASSERT_TRUE(pool->Close(true).ok());
  pool = arena.Open();
  EXPECT_EQ(pool->TakeSequence(1), 12u);
  pool.reset();
  pool = arena.Open();
  const uint64_t after_crash = pool->TakeSequence(1);
  EXPECT_GT(after_crash, 12u);
  EXPECT_LE(after_crash, 12u + 2 * (1 << 20));
}

TEST(ArenaPoolTest, SequenceNeverRepeatsAcrossCrashes) {
  TestArena arena(64 << 10);
  arena.Create();
  uint64_t next_free = 1;
  for (int crash = 0; crash < 5; ++crash) {
    auto pool = arena.Open();
    for (int i = 0; i < 5; ++i) {
      const uint64_t n = 700'000;
      const uint64_t first = pool->TakeSequence(n);
      EXPECT_GE(first, next_free);
      next_free = first + n;
    }
  }
}

TEST(ArenaPoolTest, AppliedIndexGrowsOnlyAndSurvives) {
  TestArena arena(64 << 10);
  auto pool = arena.Create();
  EXPECT_EQ(pool->applied_index(), 0u);
  for (uint64_t i = 1; i <= 9; ++i) pool->PersistAppliedIndex(i);
  pool->PersistAppliedIndex(4);
  EXPECT_EQ(arena.Open()->applied_index(), 9u);
}

TEST(ArenaPoolTest, EngineCreatedSurvivesAndResetTakesEverythingBack) {
  TestArena arena(64 << 10);
  {
    auto pool = arena.Create();
    EXPECT_FALSE(pool->engine_created());
    ASSERT_TRUE(pool->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kKeep).ok());
    pool->CommitLarge(pool->ReserveLarge(10'000, ReservePolicy::kKeep));
    pool->medium().Store(pool->engine_area()[3], 5);
  }
  {
    auto pool = arena.Open();
    EXPECT_FALSE(pool->engine_created());
    EXPECT_THAT(pool->Chunks(), SizeIs(1));
    EXPECT_THAT(pool->LargeObjects(), SizeIs(1));
    pool->ResetForEngine();
    EXPECT_EQ(pool->allocated_bytes(), 0u);
    pool->MarkEngineCreated();
  }
  auto pool = arena.Open();
  EXPECT_TRUE(pool->engine_created());
  EXPECT_THAT(pool->Chunks(), IsEmpty());
  EXPECT_THAT(pool->LargeObjects(), IsEmpty());
  EXPECT_EQ(pool->engine_area()[3].Load(), 0u);
}

TEST(ArenaPoolTest, ChunksSurviveAndAreFoundByOffset) {
  TestArena arena(256 << 10);
  std::vector<Chunk> taken;
  {
    auto pool = arena.Create();
    for (const ChunkUse use : {ChunkUse::kNodes, ChunkUse::kLogs, ChunkUse::kRecords}) {
      taken.push_back(*pool->AcquireChunk(use, 512, ReservePolicy::kKeep));
      EXPECT_EQ(taken.back().begin % 256, 0u);
    }
    pool->ReleaseChunk(taken[1].index);
  }
  auto pool = arena.Open();
  ASSERT_THAT(pool->Chunks(), SizeIs(2));
  EXPECT_EQ(pool->allocated_bytes(), 2 * 8192u);
  for (const int i : {0, 2}) {
    for (const uint64_t distance : {uint64_t{0}, uint64_t{1}, taken[i].bytes - 1}) {
      const Chunk found = pool->FindChunk(taken[i].begin + distance);
      EXPECT_EQ(found.index, taken[i].index);
      EXPECT_EQ(found.begin, taken[i].begin);
      EXPECT_EQ(found.use, taken[i].use);
      EXPECT_EQ(found.unit_bytes, 512u);
    }
  }
  for (const Offset offset : {Offset{0}, taken[0].begin - 1, taken[1].begin, Offset{256 << 10},
                              ~Offset{0}, taken[2].begin + taken[2].bytes}) {
    EXPECT_EQ(pool->FindChunk(offset).index, UINT32_MAX) << offset;
  }
}

TEST(ArenaPoolTest, ReserveServesOnlyWhoMayUseIt) {
  TestArena arena(64 << 10);
  auto pool = arena.Create();
  uint64_t kept = 0;
  while (pool->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kKeep).ok()) ++kept;
  EXPECT_EQ(pool->capacity_bytes() - pool->allocated_bytes(), pool->reserve_bytes());
  EXPECT_EQ(pool->ReserveLarge(5000, ReservePolicy::kKeep), 0u);
  const auto last = pool->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kUse);
  ASSERT_TRUE(last.ok());
  const auto none = pool->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kUse);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
  pool->ReleaseChunk(last->index);
  EXPECT_FALSE(pool->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kKeep).ok());
  EXPECT_GE(kept, 4u);
}

TEST(ArenaPoolTest, LargeObjectsCountOnceTheyArePublished) {
  TestArena arena(256 << 10);
  Offset published = 0;
  {
    auto pool = arena.Create();
    const Offset reserved = pool->ReserveLarge(20'000, ReservePolicy::kKeep);
    published = pool->ReserveLarge(20'000, ReservePolicy::kKeep);
    ASSERT_NE(reserved, 0u);
    ASSERT_NE(published, 0u);
    EXPECT_EQ(published % 256, 0u);
    std::memset(pool->At<char>(published), 1, 20'000);
    EXPECT_GE(pool->LargeBytes(published), 20'000u);
    EXPECT_EQ(pool->LargeBytes(published + 16), 0u);
    EXPECT_EQ(pool->FindChunk(published).index, UINT32_MAX);
    pool->CommitLarge(published);
    EXPECT_EQ(pool->ReserveLarge(1 << 20, ReservePolicy::kUse), 0u);
  }
  auto pool = arena.Open();
  EXPECT_EQ(pool->LargeObjects(), std::vector<Offset>{published});
  EXPECT_EQ(pool->allocated_bytes(), 3 * 8192u);
  pool->FreeLarge(published);
  EXPECT_THAT(arena.Open()->LargeObjects(), IsEmpty());
}

// The seal of a cleanly closed pool covers every byte of header and table.
TEST(ArenaPoolTest, EveryFlippedBitOfACleanHeaderIsFound) {
  TestArena arena(64 << 10);
  auto pool = arena.Create();
  ASSERT_TRUE(pool->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kKeep).ok());
  const size_t bytes = PoolHeader::BytesFor(pool->capacity_bytes() / pool->chunk_bytes());
  pool->medium().Store(pool->engine_area()[3], 0x1234);
  ASSERT_TRUE(pool->Close(true).ok());
  for (size_t i = 0; i < 8 * bytes; ++i) {
    arena.data()[i / 8] ^= std::byte(1 << i % 8);
    const absl::Status status = arena.OpenError();
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << "byte " << i / 8 << ": " << status;
    arena.data()[i / 8] ^= std::byte(1 << i % 8);
  }
  EXPECT_TRUE(arena.OpenError().ok());
}

// It also covers the nodes and logs: a leaf's bitmap has no checksum of its own.
TEST(ArenaPoolTest, EveryFlippedBitOfNodesAndLogsIsFoundAfterAClose) {
  for (const ChunkUse use : {ChunkUse::kNodes, ChunkUse::kLogs, ChunkUse::kRecords}) {
    TestArena arena(64 << 10);
    auto pool = arena.Create();
    const absl::StatusOr<Chunk> chunk = pool->AcquireChunk(use, 256, ReservePolicy::kKeep);
    ASSERT_TRUE(chunk.ok());
    pool->medium().StoreZeros(pool->At<char>(chunk->begin), chunk->bytes);
    ASSERT_TRUE(pool->Close(true).ok());
    for (size_t i = 0; i < 8 * chunk->bytes; i += 7) {
      std::byte& at = arena.data()[chunk->begin + i / 8];
      at ^= std::byte(1 << i % 8);
      const absl::Status status = arena.OpenError();
      at ^= std::byte(1 << i % 8);
      if (use == ChunkUse::kRecords) {
        ASSERT_TRUE(status.ok()) << "records carry checksums of their own: " << status;
        continue;
      }
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << "byte " << i / 8;
      ASSERT_THAT(status.message(), HasSubstr(absl::StrCat("chunk ", chunk->index)));
    }
  }
}

// A seal's checksums are meaningless once the pool is used again.
TEST(ArenaPoolTest, ContentsChangeAfterASealedPoolIsOpened) {
  TestArena arena(64 << 10);
  auto pool = arena.Create();
  const Chunk chunk = *pool->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kKeep);
  ASSERT_TRUE(pool->Close(true).ok());
  for (uint64_t life = 1; life <= 3; ++life) {
    pool = arena.Open();
    ASSERT_EQ(pool->was_clean(), life != 3) << life;
    pool->medium().Store(*pool->At<Word>(chunk.begin), life);
    if (life != 2) {
      ASSERT_TRUE(pool->Close(true).ok());
    }
    pool.reset();
  }
  EXPECT_TRUE(arena.Open()->was_clean());
}

// After a crash the inactive slot may hold anything, and the engine checks its own area.
TEST(ArenaPoolTest, EveryFlippedBitOfACrashedHeaderIsFoundOrDoesNotMatter) {
  TestArena arena(64 << 10);
  std::vector<std::byte> image;
  size_t bytes = 0;
  {
    auto pool = arena.Create();
    ASSERT_TRUE(pool->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kKeep).ok());
    bytes = PoolHeader::BytesFor(pool->capacity_bytes() / pool->chunk_bytes());
    pool->PersistAppliedIndex(5);
    image.assign(arena.data(), arena.data() + bytes);
  }
  const size_t area = offsetof(media::Header, engine_area);
  const size_t table = sizeof(media::Header);
  size_t harmless = 0;
  for (size_t i = 0; i < 8 * bytes; ++i) {
    if (i / 8 >= area && i / 8 < table) continue;
    std::memcpy(arena.data(), image.data(), bytes);
    arena.data()[i / 8] ^= std::byte(1 << i % 8);
    const auto opened = Pool::OpenArena(arena.options());
    if (!opened.ok()) {
      ASSERT_EQ(opened.status().code(), absl::StatusCode::kDataLoss) << "byte " << i / 8;
      continue;
    }
    ASSERT_EQ((*opened)->applied_index(), 5u) << "byte " << i / 8;
    ASSERT_EQ((*opened)->Chunks().size(), 1u) << "byte " << i / 8;
    ++harmless;
  }
  const size_t rows = (bytes - table) / sizeof(media::ChunkRow);
  EXPECT_EQ(harmless,
            8 * 128 + 64 * rows);  // one slot, and of each row what only a seal gives sense
}

TEST(ArenaPoolTest, NamesANewerFormat) {
  TestArena arena(64 << 10);
  arena.Create();
  auto* header = reinterpret_cast<media::Header*>(arena.data());
  header->identity.format_version = media::kFormatVersion + 1;
  header->identity.crc = IdentityCrc(header->identity);
  const absl::Status status = arena.OpenError();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("format version 2"));
  EXPECT_THAT(status.message(), HasSubstr("newer LodgeKV"));
}

TEST(ArenaPoolTest, FindsATruncatedImage) {
  TestArena arena(256 << 10);
  arena.Create();
  arena.options().memory = arena.options().memory.first(128 << 10);
  EXPECT_EQ(arena.OpenError().code(), absl::StatusCode::kDataLoss);
}

TEST(ArenaPoolTest, ThreadsTakeDistinctSequenceNumbersAndChunks) {
  TestArena arena(1 << 20);
  auto pool = arena.Create();
  constexpr int kThreads = 4;
  std::vector<std::vector<uint64_t>> numbers(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        numbers[t].push_back(pool->TakeSequence(1000));
        const auto chunk =
            pool->AcquireChunk(ChunkUse::kRecords, 16 * (t + 1), ReservePolicy::kKeep);
        ASSERT_TRUE(chunk.ok());
        ASSERT_EQ(pool->FindChunk(chunk->begin + 5).unit_bytes, 16u * (t + 1));
        pool->ReleaseChunk(chunk->index);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint64_t> all;
  for (const auto& list : numbers) all.insert(list.begin(), list.end());
  EXPECT_EQ(all.size(), kThreads * 2000u);
  EXPECT_EQ(*all.rbegin() - *all.begin(), (kThreads * 2000u - 1) * 1000);
  EXPECT_THAT(pool->Chunks(), IsEmpty());
}

}  // namespace
}  // namespace lodgekv::pmem
