#include "index/pmem/medium.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "index/pmem/internal/file_sync.h"

namespace lodgekv::pmem {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RecordingTracer : public Tracer {
 public:
  void OnStore(const void* dst, size_t bytes, bool stream) override {
    const auto* p = static_cast<const char*>(dst);
    stores.emplace_back(p, p + bytes);
    if (stream) ++streamed;
  }
  void OnFlush(const void* line) override { flushed.push_back(static_cast<const char*>(line)); }
  void OnFence() override { flushed_at_fence.push_back(flushed.size()); }
  void OnCrashPoint(std::string_view name) override { points.emplace_back(name); }
  bool OnCanary(std::string_view name) override { return name == "asked"; }

  std::vector<std::pair<const char*, const char*>> stores;
  std::vector<const char*> flushed;
  std::vector<size_t> flushed_at_fence;
  std::vector<std::string> points;
  int streamed = 0;
};

struct alignas(kBlockBytes) Memory {
  char bytes[1024];
};

TEST(PersistTest, FlushesExactlyTheLinesTouchedAtEveryOffsetAndLength) {
  static Memory memory;
  for (size_t offset = 0; offset < 2 * kLineBytes; ++offset) {
    for (size_t bytes = 0; bytes <= 5 * kLineBytes; ++bytes) {
      RecordingTracer tracer;
      Medium medium({.tracer = &tracer});
      const Cost before = ThreadCost();
      medium.Persist(memory.bytes + offset, bytes);
      const Cost cost = ThreadCost() - before;
      std::vector<const char*> lines;
      for (size_t line = 0; line < sizeof memory; line += kLineBytes) {
        const bool touched = line < offset + bytes && line + kLineBytes > offset && bytes > 0;
        if (touched) lines.push_back(memory.bytes + line);
      }
      ASSERT_THAT(tracer.flushed, ElementsAreArray(lines)) << offset << "+" << bytes;
      ASSERT_THAT(tracer.flushed_at_fence, ElementsAreArray({lines.size()}));
      ASSERT_EQ(cost.lines_flushed, lines.size());
      ASSERT_EQ(cost.fences, 1u);
    }
  }
}

TEST(PersistTest, StoresAreTracedWithTheirContentInPlace) {
  static Memory memory;
  static Memory source;
  static Word word;
  std::fill(std::begin(source.bytes), std::end(source.bytes), 'x');
  RecordingTracer tracer;
  Medium medium({.tracer = &tracer});
  const Cost before = ThreadCost();
  medium.Store(word, 42);
  medium.StoreBulk(memory.bytes + 3, source.bytes, 100);
  medium.StoreZeros(memory.bytes + 10, 5);
  medium.StreamLine(memory.bytes + 256, source.bytes);
  EXPECT_EQ((ThreadCost() - before).bytes_stored, 8u + 100 + 5 + 64);
  EXPECT_EQ((ThreadCost() - before).lines_flushed, 1u);
  EXPECT_EQ(word.Load(), 42u);
  EXPECT_EQ(std::string(memory.bytes, 15), std::string(3, '\0') + "xxxxxxx" + std::string(5, '\0'));
  EXPECT_EQ(std::string(memory.bytes + 256, 65), std::string(64, 'x') + '\0');
  ASSERT_EQ(tracer.stores.size(), 4u);
  EXPECT_EQ(tracer.stores[1].first, memory.bytes + 3);
  EXPECT_EQ(tracer.stores[1].second, memory.bytes + 103);
  EXPECT_EQ(tracer.streamed, 1);
}

// The laboratory draws images between the two.
TEST(PersistTest, StoreTwoIsTwoStoresInOrder) {
  struct FirstWord : RecordingTracer {
    void OnStore(const void* dst, size_t bytes, bool stream) override {
      RecordingTracer::OnStore(dst, bytes, stream);
      second_at_store.push_back(second->Load());
    }
    const Word* second = nullptr;
    std::vector<uint64_t> second_at_store;
  };
  static Word words[2];
  FirstWord tracer;
  tracer.second = &words[1];
  Medium medium({.tracer = &tracer});
  const Cost before = ThreadCost();
  medium.StoreTwo(words[0], 7, words[1], 8);
  EXPECT_EQ((ThreadCost() - before).bytes_stored, 2 * sizeof(Word));
  EXPECT_EQ(words[0].Load(), 7u);
  EXPECT_THAT(tracer.second_at_store, ElementsAreArray({0u, 8u}));
  const auto* first = reinterpret_cast<const char*>(&words[0]);
  ASSERT_EQ(tracer.stores.size(), 2u);
  EXPECT_EQ(tracer.stores[0].first, first);
  EXPECT_EQ(tracer.stores[1].first, first + sizeof(Word));
}

// What a commit costs, alone and with other lines under its fence.
TEST(PersistTest, AWordIsStoredFlushedAndFenced) {
  static Memory memory;
  static Word& word = *reinterpret_cast<Word*>(memory.bytes + kBlockBytes);
  const auto never = [] { FAIL() << "there is no tracer"; };
  for (const FlushMode mode : {FlushMode::kClwb, FlushMode::kClflush, FlushMode::kNone}) {
    for (const bool instruction : {true, false}) {
      Medium medium({.mode = mode, .fence_instruction = instruction});
      medium.Fence();
      const uint64_t value = word.Load() + 2;
      const auto persist = [&] { medium.PersistWord(word, value, never); };
      if (instruction) persist();
      const Cost start = ThreadCost();
      medium.PersistOrdered(word, value + 1, [] {});
      EXPECT_EQ(word.Load(), value + 1);
      const Cost alone = ThreadCost() - start;
      EXPECT_EQ(alone.lines_flushed, 1u);
      EXPECT_EQ(alone.fences, 1u);
      EXPECT_EQ(alone.media_writes_256b, 1u);
      EXPECT_EQ(alone.bytes_stored, sizeof(Word));

      const Cost before = ThreadCost();
      medium.FlushLine(memory.bytes);
      medium.FlushLine(memory.bytes + kBlockBytes + kLineBytes);  // of the word's block
      medium.PersistWord(word, value, [] {});
      medium.FlushLine(&word);  // behind the fence the block counts again
      const Cost cost = ThreadCost() - before;
      EXPECT_EQ(cost.lines_flushed, 4u);
      EXPECT_EQ(cost.fences, 1u);
      EXPECT_EQ(cost.media_writes_256b, 3u);
      EXPECT_EQ(cost.bytes_stored, sizeof(Word));
    }
  }
}

TEST(PersistTest, AWordsCrashPointIsBeforeItsFence) {
  static Word word;
  RecordingTracer tracer;
  Medium medium({.tracer = &tracer});
  const auto at_point = [&] {
    EXPECT_EQ(tracer.flushed.size(), 1u);
    EXPECT_THAT(tracer.flushed_at_fence, IsEmpty());
    medium.CrashPoint("a.1");
  };
  medium.PersistWord(word, 7, at_point);
  EXPECT_EQ(word.Load(), 7u);
  EXPECT_THAT(tracer.points, ElementsAreArray({"a.1"}));
  EXPECT_THAT(tracer.flushed_at_fence, ElementsAreArray({size_t{1}}));
  EXPECT_EQ(tracer.stores.size(), 1u);
}

TEST(PersistTest, EveryModeOfThisProcessorStoresAndCounts) {
  static Memory memory;
  alignas(kLineBytes) char line[kLineBytes];
  for (const FlushMode mode :
       {FlushMode::kClwb, FlushMode::kClflushopt, FlushMode::kClflush, FlushMode::kNone}) {
    Medium medium({.mode = mode});
    EXPECT_EQ(medium.mode(), mode);
    std::fill(std::begin(line), std::end(line), static_cast<char>('a' + static_cast<int>(mode)));
    const Cost before = ThreadCost();
    medium.StreamLine(memory.bytes, line);
    medium.StoreBulk(memory.bytes + 64, line, 64);
    medium.Persist(memory.bytes + 64, 64);
    EXPECT_EQ(std::string(memory.bytes, 64), std::string(line, 64));
    EXPECT_EQ((ThreadCost() - before).lines_flushed, 2u);
    EXPECT_EQ((ThreadCost() - before).fences, 1u);
    EXPECT_FALSE(medium.failed());
  }
}

TEST(PersistTest, CountsDistinctBlocksBetweenTwoFences) {
  static Memory memory;
  Medium medium({});
  medium.Fence();
  Cost before = ThreadCost();
  for (int i = 0; i < 3; ++i) medium.Flush(memory.bytes, 256);
  EXPECT_EQ((ThreadCost() - before).media_writes_256b, 1u);
  medium.Flush(memory.bytes + 255, 2);
  EXPECT_EQ((ThreadCost() - before).media_writes_256b, 2u);
  medium.Fence();
  before = ThreadCost();
  medium.Flush(memory.bytes, 64);
  EXPECT_EQ((ThreadCost() - before).media_writes_256b, 1u);
}

// In more rounds than the table's entries can number, with blocks that have one place there.
TEST(PersistTest, TellsBlocksApartInEveryRound) {
  Medium medium({});  // flushes nothing, so any address will do
  const auto line = [](uintptr_t block) { return reinterpret_cast<const void*>(block * 256); };
  for (int round = 0; round < 40000; ++round) {
    medium.Fence();
    const Cost before = ThreadCost();
    for (int i = 0; i < 6; ++i) medium.FlushLine(line(uintptr_t(1) + uintptr_t(i % 3) * 4096));
    ASSERT_EQ((ThreadCost() - before).media_writes_256b, 3u) << round;
  }
}

// Of more blocks than it keeps it counts some twice, none never.
TEST(PersistTest, CountsEveryBlockOfMany) {
  Medium medium({});
  medium.Fence();
  const Cost before = ThreadCost();
  for (uintptr_t block = 1; block <= 200; ++block) {
    medium.FlushLine(reinterpret_cast<const void*>(block * 256));
  }
  EXPECT_EQ((ThreadCost() - before).media_writes_256b, 200u);
}

TEST(PersistTest, CrashPointsAndCanariesReachTheTracerOnly) {
  RecordingTracer tracer;
  Medium traced({.tracer = &tracer});
  traced.CrashPoint("a.1");
  EXPECT_THAT(tracer.points, ElementsAreArray({"a.1"}));
  EXPECT_TRUE(traced.Canary("asked"));
  EXPECT_FALSE(traced.Canary("other"));
  Medium untraced({});
  untraced.CrashPoint("a.1");
  EXPECT_FALSE(untraced.Canary("asked"));
}

TEST(ThreadCountersTest, TotalsKeepWhatEndedThreadsDid) {
  static Word word;
  Medium medium({});
  const Cost before = TotalCost();
  for (int i = 0; i < 100; ++i) {
    std::thread([&] {
      const Cost start = ThreadCost();
      medium.Store(word, 1);
      medium.Persist(&word, sizeof word);
      EXPECT_EQ((ThreadCost() - start).fences, 1u);
    }).join();
  }
  const Cost cost = TotalCost() - before;
  EXPECT_EQ(cost.fences, 100u);
  EXPECT_EQ(cost.lines_flushed, 100u);
  EXPECT_EQ(cost.bytes_stored, 800u);
}

// While they run: all have fenced, and none has ended.
TEST(ThreadCountersTest, TotalsHaveWhatLiveThreadsDo) {
  Medium medium({});
  const Cost before = TotalCost();
  std::latch fenced(4);
  std::latch looked_at(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      medium.Fence();
      fenced.count_down();
      looked_at.wait();
    });
  }
  fenced.wait();
  EXPECT_EQ((TotalCost() - before).fences, 4u);
  looked_at.count_down();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((TotalCost() - before).fences, 4u);
}

TEST(ThreadCountersTest, LiveThreadsCountApart) {
  Medium medium({});
  const Cost before = TotalCost();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const Cost start = ThreadCost();
      for (int i = 0; i < 10'000; ++i) medium.Fence();
      EXPECT_EQ((ThreadCost() - start).fences, 10'000u);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((TotalCost() - before).fences, 40'000u);
}

int OpenTemporary(std::string* path) {
  *path =
      std::string(getenv("TMPDIR") != nullptr ? getenv("TMPDIR") : "/tmp") + "/file_sync_XXXXXX";
  const int fd = mkstemp(path->data());
  EXPECT_GE(fd, 0);
  return fd;
}

TEST(FileSyncTest, ThreadsShareSyncs) {
  std::string path;
  const int fd = OpenTemporary(&path);
  FileSync sync({{path, fd}}, nullptr, [](const std::string& what) { FAIL() << what; });
  constexpr int kThreads = 8;
  constexpr int kEach = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE(sync.Sync());
    });
  }
  for (std::thread& thread : threads) thread.join();
  unlink(path.c_str());
  EXPECT_GE(sync.rounds(), static_cast<uint64_t>(kEach));
  EXPECT_LT(sync.rounds(), static_cast<uint64_t>(kThreads * kEach));
}

TEST(FileSyncTest, FenceOfAFileSyncsItOnce) {
  std::string path;
  const int fd = OpenTemporary(&path);
  FileSync sync({{path, fd}}, nullptr, nullptr);
  Medium medium({.mode = FlushMode::kFile, .file_fence = &sync});
  const Cost before = ThreadCost();
  medium.Fence();
  medium.Fence();
  unlink(path.c_str());
  EXPECT_EQ(sync.rounds(), 2u);
  EXPECT_EQ((ThreadCost() - before).fences, 2u);
  EXPECT_FALSE(medium.failed());
}

// A pipe cannot be synced: fdatasync fails as it does on a broken device.
TEST(FileSyncTest, AFailureIsFinalAndToldOnce) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  std::vector<std::string> told;
  std::mutex mu;
  FileSync sync({{"/pool/file", pipe_fds[0]}}, nullptr, [&](const std::string& what) {
    std::lock_guard lock(mu);
    told.push_back(what);
  });
  Medium medium({.mode = FlushMode::kFile, .file_fence = &sync});
  EXPECT_FALSE(medium.failed());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        medium.Fence();
        EXPECT_TRUE(medium.failed());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The descriptor works again, but the failure stays.
  std::string path;
  const int good = OpenTemporary(&path);
  dup2(good, pipe_fds[0]);
  medium.Fence();
  EXPECT_TRUE(medium.failed());
  EXPECT_FALSE(sync.Sync());
  EXPECT_EQ(sync.rounds(), 1u);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], HasSubstr("/pool/file"));
  EXPECT_THAT(told[0], HasSubstr("Invalid argument"));
  unlink(path.c_str());
  close(good);
  close(pipe_fds[1]);
}

}  // namespace
}  // namespace lodgekv::pmem
