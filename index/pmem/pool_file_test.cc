// Pools over libpmemobj, in files and poolsets.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "index/pmem/internal/journal_replay.h"
#include "index/pmem/internal/medium_class.h"
#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"
#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::pmem {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kMiB = uint64_t{1} << 20;

PoolIdentity TestIdentity() {
  PoolIdentity identity;
  identity.engine = "test";
  identity.media_version = 3;
  identity.key_format = KeyFormat::kFixed64;
  return identity;
}

PoolOptions OptionsFor(const std::string& path, uint64_t bytes = 8 * kMiB) {
  PoolOptions options;
  options.path = path;
  options.size_bytes = bytes;
  options.allow_volatile_medium = true;
  return options;
}

std::unique_ptr<Pool> Create(const PoolOptions& options) {
  auto pool = Pool::Create(options, TestIdentity());
  EXPECT_TRUE(pool.ok()) << pool.status();
  return pool.ok() ? *std::move(pool) : nullptr;
}

std::unique_ptr<Pool> Open(const PoolOptions& options) {
  auto pool = Pool::Open(options);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return pool.ok() ? *std::move(pool) : nullptr;
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

TEST(PoolFileTest, HasOneGibibyteIfNoSizeIsGiven) {
  TempDir dir;
  Create(OptionsFor(dir / "pool", 0));
  EXPECT_EQ(std::filesystem::file_size(dir / "pool"), kDefaultPoolFileBytes);
}

TEST(PoolFileTest, IsThereAfterClose) {
  TempDir dir;
  const PoolOptions options = OptionsFor(dir / "pool");
  EXPECT_FALSE(*Pool::Exists(options.path));
  {
    auto pool = Create(options);
    EXPECT_EQ(dir.Names(), "pool");
    EXPECT_TRUE(*Pool::Exists(options.path));
    pool->medium().Store(pool->engine_area()[255], 11);
    pool->MarkEngineCreated();
    pool->PersistAppliedIndex(6);
    EXPECT_EQ(pool->TakeSequence(5), 1u);
    EXPECT_TRUE(pool->Close(true).ok());
  }
  auto pool = Open(options);
  EXPECT_TRUE(pool->was_clean());
  EXPECT_TRUE(pool->engine_created());
  EXPECT_EQ(pool->identity().engine, "test");
  EXPECT_EQ(pool->identity().media_version, 3u);
  EXPECT_EQ(pool->identity().key_format, KeyFormat::kFixed64);
  EXPECT_EQ(pool->engine_area()[255].Load(), 11u);
  EXPECT_EQ(pool->applied_index(), 6u);
  EXPECT_EQ(pool->PeekSequence(), 6u);
}

TEST(PoolFileTest, FileIsReadableByItsOwnerOnly) {
  TempDir dir;
  Create(OptionsFor(dir / "pool"));
  struct stat st;
  ASSERT_EQ(stat((dir / "pool").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_EQ(st.st_size, static_cast<off_t>(8 * kMiB));
}

TEST(PoolFileTest, WithoutCloseItIsNotClean) {
  TempDir dir;
  const PoolOptions options = OptionsFor(dir / "pool");
  EXPECT_TRUE(Create(options)->Close(true).ok());
  const pid_t child = fork();
  if (child == 0) {
    auto pool = Pool::Open(options);
    _exit(pool.ok() && (*pool)->was_clean() && (*pool)->TakeSequence(7) == 1 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  auto pool = Open(options);
  EXPECT_FALSE(pool->was_clean());
  EXPECT_GE(pool->PeekSequence(), 8u);
}

TEST(PoolFileTest, AnEmptyFileBecomesAPool) {
  TempDir dir;
  WriteFile(dir / "pool", "");
  EXPECT_FALSE(*Pool::Exists(dir / "pool"));
  Create(OptionsFor(dir / "pool"));
  EXPECT_EQ(dir.Names(), "pool");
  Open(OptionsFor(dir / "pool"));
}

// Chunks, their classes and large objects, for pools with several chunks per object and with one.
TEST(PoolFileTest, ChunksAndLargeObjectsSurvive) {
  for (const uint64_t bytes : {8 * kMiB, 64 * kMiB, 200 * kMiB}) {
    TempDir dir;
    const PoolOptions options = OptionsFor(dir / "pool", bytes);
    std::vector<Chunk> taken;
    Offset published = 0;
    {
      auto pool = Create(options);
      for (int i = 0; i < 9; ++i) {
        taken.push_back(
            *pool->AcquireChunk(ChunkUse::kRecords, 64 * (i + 1), ReservePolicy::kKeep));
        EXPECT_EQ(taken.back().begin % 256, 0u);
        EXPECT_EQ(taken.back().bytes, pool->chunk_bytes());
        std::memset(pool->At<char>(taken.back().begin), i, taken.back().bytes);
      }
      pool->ReleaseChunk(taken[4].index);
      taken.erase(taken.begin() + 4);
      ASSERT_NE(pool->ReserveLarge(100'000, ReservePolicy::kKeep), 0u);
      published = pool->ReserveLarge(150'000, ReservePolicy::kKeep);
      EXPECT_EQ(published % 256, 0u);
      EXPECT_GE(pool->LargeBytes(published), 150'000u);
      std::memset(pool->At<char>(published), 9, 150'000);
      pool->CommitLarge(published);
    }
    auto pool = Open(options);
    ASSERT_THAT(pool->Chunks(), SizeIs(8));
    for (size_t i = 0; i < taken.size(); ++i) {
      for (const uint64_t distance : {uint64_t{0}, uint64_t{12345}, taken[i].bytes - 1}) {
        const Chunk found = pool->FindChunk(taken[i].begin + distance);
        EXPECT_EQ(found.index, taken[i].index);
        EXPECT_EQ(found.unit_bytes, taken[i].unit_bytes);
      }
      EXPECT_NE(pool->FindChunk(taken[i].begin + taken[i].bytes).index, taken[i].index);
    }
    EXPECT_EQ(pool->LargeObjects(), std::vector<Offset>{published});
    EXPECT_GE(pool->LargeBytes(published), 150'000u);
    EXPECT_EQ(*pool->At<char>(published + 149'999), 9);
    pool->ResetForEngine();
    EXPECT_EQ(pool->allocated_bytes(), 0u);
    pool.reset();
    EXPECT_THAT(Open(options)->LargeObjects(), IsEmpty());
  }
}

TEST(PoolFileTest, AFullPoolIsFullToItsCapacityAndServesAgain) {
  TempDir dir;
  const PoolOptions options = OptionsFor(dir / "pool", 16 * kMiB);
  auto pool = Create(options);
  for (int round = 0; round < 3; ++round) {
    std::vector<Chunk> chunks;
    for (const ReservePolicy policy : {ReservePolicy::kKeep, ReservePolicy::kUse}) {
      while (true) {
        auto chunk = pool->AcquireChunk(ChunkUse::kNodes, 256, policy);
        if (!chunk.ok()) {
          EXPECT_EQ(chunk.status().code(), absl::StatusCode::kResourceExhausted);
          break;
        }
        chunks.push_back(*chunk);
      }
      const uint64_t left = policy == ReservePolicy::kKeep ? pool->reserve_bytes() : 0;
      EXPECT_EQ(pool->capacity_bytes() - pool->allocated_bytes(), left);
    }
    EXPECT_EQ(pool->ReserveLarge(100'000, ReservePolicy::kUse), 0u);
    std::set<uint64_t> begins;
    for (const Chunk& chunk : chunks) begins.insert(chunk.begin);
    EXPECT_EQ(begins.size(), chunks.size());
    for (const Chunk& chunk : chunks) pool->ReleaseChunk(chunk.index);

    // The same space as large objects; the reserve stays untouched.
    std::vector<Offset> large;
    while (const Offset offset = pool->ReserveLarge(1'000'000, ReservePolicy::kKeep)) {
      large.push_back(offset);
    }
    EXPECT_GT(pool->allocated_bytes(), pool->capacity_bytes() * 3 / 4);
    EXPECT_TRUE(pool->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kUse).ok());
    pool->ReleaseChunk(pool->Chunks()[0].index);
    for (const Offset offset : large) {
      if (offset % 512 == 0) pool->CommitLarge(offset);
      pool->FreeLarge(offset);
    }
    EXPECT_EQ(pool->allocated_bytes(), 0u);
  }
  pool.reset();
  EXPECT_THAT(Open(options)->Chunks(), IsEmpty());
}

TEST(PoolFileTest, EveryRecordSizeFitsASmallPool) {
  TempDir dir;
  auto pool = Create(OptionsFor(dir / "pool", 8 * kMiB));
  RecordSlab slab(*pool);
  UnitArena nodes(*pool, ChunkUse::kNodes, 256);
  UnitArena logs(*pool, ChunkUse::kLogs, 4096);
  EXPECT_NE(nodes.Allocate(ReservePolicy::kKeep), 0u);
  EXPECT_NE(logs.Allocate(ReservePolicy::kKeep), 0u);
  std::vector<Offset> held;
  for (uint64_t bytes = 32; bytes <= 16384; bytes += bytes / 4) {
    held.push_back(slab.Allocate(bytes, ReservePolicy::kKeep));
    EXPECT_NE(held.back(), 0u) << bytes;
  }
  EXPECT_NE(slab.Allocate(200'000, ReservePolicy::kKeep), 0u);
}

TEST(PoolFileTest, ThreadsShareIt) {
  TempDir dir;
  const PoolOptions options = OptionsFor(dir / "pool", 64 * kMiB);
  auto pool = Create(options);
  {
    RecordSlab slab(*pool);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::vector<Offset> held;
        for (int i = 0; i < 3000; ++i) {
          const uint64_t bytes = i % 100 == 0 ? 80'000 : 40 + (i * 37 + t) % 3000;
          const Offset record = slab.Allocate(bytes, ReservePolicy::kKeep);
          ASSERT_NE(record, 0u);
          slab.Commit(record);
          held.push_back(record);
          if (held.size() < 100) continue;
          for (const Offset r : held) slab.Free(r);
          held.clear();
        }
        for (const Offset r : held) slab.Free(r);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(slab.used_bytes(), 0u);
  }
  EXPECT_TRUE(pool->Close(true).ok());
  Open(options);
}

TEST(PoolFileTest, LeavesNothingBehindWhenUndone) {
  TempDir dir;
  EXPECT_TRUE(Create(OptionsFor(dir / "pool"))->CloseAndRemove().ok());
  EXPECT_EQ(dir.Names(), "");
}

TEST(PoolFileTest, TakesOverAfterADeadCreator) {
  TempDir dir;
  for (const std::string& left : {std::string(), std::string(100'000, '\0'),
                                  std::string("PMEMOBJ") + std::string(100'000, '\0')}) {
    WriteFile(dir / "pool.creating", left);
    EXPECT_TRUE(Create(OptionsFor(dir / "pool"))->Close(true).ok());
    EXPECT_EQ(dir.Names(), "pool");
    std::filesystem::remove(dir / "pool");
  }
}

TEST(PoolFileTest, LeavesAStrangersFileAlone) {
  TempDir dir;
  WriteFile(dir / "pool.creating", "my diary");
  const absl::Status status = Pool::Create(OptionsFor(dir / "pool"), TestIdentity()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr(dir / "pool.creating"));
  EXPECT_EQ(dir.Names(), "pool.creating");
}

TEST(PoolFileTest, RespectsALivingCreator) {
  TempDir dir;
  WriteFile(dir / "pool.creating", std::string(100'000, 'x'));
  const int fd = open((dir / "pool.creating").c_str(), O_RDWR);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  const absl::Status status = Pool::Create(OptionsFor(dir / "pool"), TestIdentity()).status();
  close(fd);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("another process is creating"));
  EXPECT_EQ(dir.Names(), "pool.creating");
}

// Whether a thread of this process waits for the lock of a file.
bool WaitsForALock() {
  std::ifstream locks("/proc/locks");
  const std::string waiting = " " + std::to_string(getpid()) + " ";
  for (std::string line; std::getline(locks, line);) {
    if (line.find("-> FLOCK") != std::string::npos && line.find(waiting) != std::string::npos) {
      return true;
    }
  }
  return false;
}

// libpmemobj locks a new file only when its space is allocated. Meanwhile nobody may take it for
// what a dead creator has left.
TEST(PoolFileTest, OneCreatorAtATimeLooksForLeftovers) {
  TempDir dir;
  const int fd = open(dir.path().c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  std::thread other([&] { EXPECT_TRUE(Create(OptionsFor(dir / "pool"))->Close(true).ok()); });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!WaitsForALock() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(dir.Names(), "");
  close(fd);
  other.join();
  EXPECT_EQ(dir.Names(), "pool");
}

// A creator killed at any moment leaves no pool, or a complete one.
TEST(PoolFileTest, CreationKilledAtAnyMomentCanBeRepeated) {
  TempDir dir;
  int whole = 0;
  int rounds = 0;
  for (int delay_us = 0; delay_us < 12'000; delay_us += 600, ++rounds) {
    const PoolOptions options = OptionsFor(dir / "pool");
    const pid_t child = fork();
    if (child == 0) {
      auto pool = Pool::Create(options, TestIdentity());
      pause();
    }
    usleep(delay_us);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const bool exists = *Pool::Exists(options.path);
    if (exists) {
      ++whole;
      EXPECT_TRUE(Open(options)->CloseAndRemove().ok());
    } else {
      EXPECT_TRUE(Create(options)->CloseAndRemove().ok());
    }
    EXPECT_EQ(dir.Names(), "") << "after " << delay_us;
  }
  EXPECT_LT(whole, rounds);
}

TEST(PoolFileTest, AnOrdinaryFileHasAJournalAndIsStrict) {
  TempDir dir(TempDir::Disk());
  auto pool = Create(OptionsFor(dir / "pool"));
  if (pool->medium_class() != MediumClass::kFile) GTEST_SKIP() << "no disk at " << dir.path();
  EXPECT_EQ(pool->medium().mode(), FlushMode::kFile);
  EXPECT_TRUE(pool->medium().strict_order());
  EXPECT_THAT(pool->durability_detail(), HasSubstr("journal"));
  EXPECT_TRUE(pool->Close(true).ok());
  EXPECT_TRUE(Open(OptionsFor(dir / "pool"))->was_clean());
}

// Replaces every descriptor of the file by something that cannot be synced.
void BreakSyncOf(const std::string& path) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  std::vector<int> fds;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) == path) {
      fds.push_back(std::stoi(entry.path().filename()));
    }
  }
  for (const int fd : fds) dup2(pipe_fds[0], fd);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST(PoolFileTest, AFailedWriteOfTheJournalIsFinalAndThePoolIsNotMarkedClean) {
  TempDir dir(TempDir::Disk());
  PoolOptions options = OptionsFor(dir / "pool");
  std::vector<std::string> told;
  options.on_medium_failure = [&](const std::string& what) { told.push_back(what); };
  auto pool = Create(options);
  if (pool->medium_class() != MediumClass::kFile) GTEST_SKIP() << "no disk at " << dir.path();
  EXPECT_TRUE(pool->Close(true).ok());
  pool = Open(options);
  EXPECT_FALSE(pool->medium().failed());
  BreakSyncOf(options.path + ".journal");
  pool->PersistAppliedIndex(1);
  EXPECT_TRUE(pool->medium().failed());
  pool->PersistAppliedIndex(2);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_THAT(told[0], HasSubstr(options.path + ".journal"));
  EXPECT_EQ(pool->Close(true).code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(Open(options)->was_clean());
}

TEST(PoolFileTest, AFailedSyncAtTheEndLeavesThePoolInNeedOfItsJournal) {
  TempDir dir(TempDir::Disk());
  PoolOptions options = OptionsFor(dir / "pool");
  std::vector<std::string> told;
  options.on_medium_failure = [&](const std::string& what) { told.push_back(what); };
  auto pool = Create(options);
  if (pool->medium_class() != MediumClass::kFile) GTEST_SKIP() << "no disk at " << dir.path();
  pool->PersistAppliedIndex(7);
  BreakSyncOf(options.path);
  EXPECT_EQ(pool->Close(true).code(), absl::StatusCode::kDataLoss);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_THAT(told[0], HasSubstr("fdatasync of " + options.path));
  pool = Open(options);
  EXPECT_FALSE(pool->was_clean());
  EXPECT_GT(pool->journal_replay().groups, 0u);
  EXPECT_EQ(pool->applied_index(), 7u);
}

TEST(PoolFileTest, ProcessDurabilitySyncsNothing) {
  TempDir dir(TempDir::Disk());
  PoolOptions options = OptionsFor(dir / "pool");
  options.process_durability = true;
  auto pool = Create(options);
  EXPECT_EQ(pool->medium().mode(), FlushMode::kNone);
  EXPECT_FALSE(pool->medium().strict_order());
  EXPECT_THAT(pool->durability_detail(), HasSubstr("not a power cut"));
}

TEST(PoolFileTest, AMemoryFileSystemNeedsLeave) {
  TempDir dir;
  PoolOptions options = OptionsFor(dir / "pool");
  options.allow_volatile_medium = false;
  const absl::Status status = Pool::Create(options, TestIdentity()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr(dir / "pool"));
  EXPECT_THAT(status.message(), HasSubstr("allow_volatile_medium"));
  EXPECT_EQ(dir.Names(), "");
  options.allow_volatile_medium = true;
  EXPECT_EQ(Create(options)->medium_class(), MediumClass::kVolatile);
  options.allow_volatile_medium = false;
  EXPECT_EQ(Pool::Open(options).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PoolFileTest, ForcedPmemNeedsNoLeaveAndFlushesLines) {
  TempDir dir;
  PoolOptions options = OptionsFor(dir / "pool");
  options.allow_volatile_medium = false;
  // libpmem reads the variable when it is loaded, so this needs a process of its own.
  const std::string command = "PMEM_IS_PMEM_FORCE=1 LODGEKV_TEST_POOL=" + options.path + " /proc/" +
                              std::to_string(getpid()) +
                              "/exe --gtest_filter=PoolFileChildTest.Forced > /dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(dir.Names(), "pool") << "the child did not run";
}

TEST(PoolFileChildTest, Forced) {
  const char* path = std::getenv("LODGEKV_TEST_POOL");
  if (path == nullptr) GTEST_SKIP() << "runs in a child of another test";
  PoolOptions options = OptionsFor(path);
  options.allow_volatile_medium = false;
  auto pool = Create(options);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->medium_class(), MediumClass::kPmemForced);
  EXPECT_EQ(pool->medium().mode(), ProcessorFlushMode());
  EXPECT_FALSE(pool->medium().strict_order());
}

TEST(PoolsetTest, PartsMakeOnePool) {
  TempDir dir;
  WriteFile(dir / "set", "PMEMPOOLSET\n# two parts\n8M " + dir / "a" + "\n10MiB " + dir / "b\n");
  const PoolOptions options = OptionsFor(dir / "set", 0);
  EXPECT_FALSE(*Pool::Exists(options.path));
  {
    auto pool = Create(options);
    EXPECT_TRUE(*Pool::Exists(options.path));
    EXPECT_GT(pool->capacity_bytes(), 12 * kMiB);
    while (pool->AcquireChunk(ChunkUse::kNodes, 256, ReservePolicy::kUse).ok()) {
    }
    EXPECT_GT(pool->allocated_bytes(), pool->capacity_bytes() * 9 / 10);
    EXPECT_TRUE(pool->Close(true).ok());
  }
  auto pool = Open(options);
  EXPECT_TRUE(pool->was_clean());
  EXPECT_GT(pool->allocated_bytes(), 12 * kMiB);
  EXPECT_TRUE(pool->CloseAndRemove().ok());
  EXPECT_EQ(dir.Names(), "set");
}

}  // namespace
}  // namespace lodgekv::pmem
