#include "index/node/append_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "index/cost.h"
#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Log = AppendLog;

constexpr unsigned kEntries = 6;  // L
constexpr uint64_t kLimit = 4096;

class AppendLogTest : public ::testing::Test {
 protected:
  AppendLogTest() { New(); }

  void New() {
    log_ = std::make_unique<Log>(*pool_, kEntries, [] { return kLimit; });
  }
  // What a process that begins after a crash sees.
  void Reopen() {
    log_.reset();
    pool_.reset();
    pool_ = arena_.Open();
    New();
    log_->Adopt(pool_->Chunks());
  }

  void FinishRecovery() {
    log_->TakeOwnChunks();
    for (pmem::UnitArena* arena : log_->arenas()) arena->FinishMark();
  }

  // One fence group of `count` entries; returns their log.
  uint32_t AppendGroup(unsigned count) {
    EXPECT_TRUE(log_->ReserveInOneLog(count, pmem::ReservePolicy::kKeep));
    uint32_t id = Log::kNoLog;
    for (unsigned left = count; left-- > 0;) {
      const uint64_t sequence = pool_->TakeSequence(1);
      sequences_.push_back(sequence);
      const auto op = sequence % 2 == 0 ? LogOp::kPut : LogOp::kDelete;
      const uint32_t at = log_->Append({sequence * 3, sequence * 5}, sequence, op, left,
                                       static_cast<uint32_t>(sequence * 7));
      EXPECT_TRUE(id == Log::kNoLog || id == at) << "a group lies in one log";
      id = at;
    }
    pool_->medium().Fence();
    return id;
  }

  // The numbers of the entries that are read from the logs, oldest log first.
  std::vector<uint64_t> ReadBack(std::vector<bool>* in_last_group = nullptr) {
    std::vector<FoundLog> logs = log_->FindLogs(2);
    std::sort(logs.begin(), logs.end(),
              [](const auto& a, const auto& b) { return a.version < b.version; });
    std::vector<uint64_t> sequences;
    for (const FoundLog& log : logs) {
      std::vector<FoundEntry> entries;
      std::string problem;
      EXPECT_TRUE(log_->ReadLog(log, &entries, &problem)) << problem;
      for (const FoundEntry& entry : entries) {
        sequences.push_back(entry.sequence);
        if (in_last_group != nullptr) in_last_group->push_back(entry.in_last_group);
        EXPECT_EQ(entry.pair.key, entry.sequence * 3);
        EXPECT_EQ(entry.pair.value, entry.sequence * 5);
        EXPECT_EQ(entry.record_crc, static_cast<uint32_t>(entry.sequence * 7));
        EXPECT_EQ(entry.op, entry.sequence % 2 == 0 ? LogOp::kPut : LogOp::kDelete);
      }
    }
    return sequences;
  }

  Log::OldLog Next() {
    Log::OldLog old;
    EXPECT_TRUE(log_->NextToEmpty(&old));
    return old;
  }
  std::vector<uint64_t> ReadOld(const Log::OldLog& old) {
    std::vector<uint64_t> sequences;
    FoundEntry entry;
    for (unsigned i = 0; i < old.found.entries; ++i) {
      if (log_->ReadOld(old, i, &entry)) sequences.push_back(entry.sequence);
    }
    return sequences;
  }

  FoundLog OnlyLog() {
    const std::vector<FoundLog> logs = log_->FindLogs(2);
    EXPECT_EQ(logs.size(), 1u);
    return logs.at(0);
  }
  uint8_t* EntryBytes(const FoundLog& log, unsigned position) {
    return pool_->At<uint8_t>(log.offset + sizeof(media::LogHeader) +
                              position * sizeof(media::LogEntry));
  }
  std::vector<uint64_t> First(size_t n) const {
    return {sequences_.begin(), sequences_.begin() + static_cast<ptrdiff_t>(n)};
  }

  pmem::TestArena arena_{1 << 20};
  std::unique_ptr<pmem::Pool> pool_ = arena_.Create();
  std::unique_ptr<Log> log_;
  std::vector<uint64_t> sequences_;  // of all entries appended, in order
};

TEST(LogEntryTest, MetaWord) {
  const uint64_t meta = media::PackLogMeta(0xfffffffffffff, LogOp::kAppliedIndex, 1023);
  EXPECT_EQ(media::LogSequenceOf(meta), 0xfffffffffffffu);
  EXPECT_EQ(media::LogOpOf(meta), LogOp::kAppliedIndex);
  EXPECT_EQ(media::LogLeftOf(meta), 1023u);
  // docs/media_format.md shows this one.
  EXPECT_EQ(media::PackLogMeta(5, LogOp::kDelete, 3), 0x5403u);
}

TEST_F(AppendLogTest, ReadsBackWhatWasAppended) {
  for (unsigned i = 0; i < 4 * kEntries + 3; ++i) AppendGroup(1);
  Reopen();
  EXPECT_EQ(ReadBack(), sequences_);
}

TEST_F(AppendLogTest, AGroupLiesInOneLogAndLongOnesInALongLog) {
  AppendGroup(4);
  AppendGroup(4);  // no room after the first
  AppendGroup(kEntries + 1);
  AppendGroup(log_->largest_group());
  EXPECT_GT(log_->largest_group(), kEntries);
  EXPECT_LE(log_->largest_group(), media::kLargestLogGroup);
  Reopen();
  EXPECT_EQ(ReadBack(), sequences_);
}

TEST_F(AppendLogTest, OneLineAnEntryAndNoFence) {
  AppendGroup(1);
  ASSERT_TRUE(log_->ReserveInOneLog(1, pmem::ReservePolicy::kKeep));
  const Cost before = ThreadCost();
  (void)log_->Append({1, 2}, pool_->TakeSequence(1), LogOp::kPut, 0, 0);
  EXPECT_EQ((ThreadCost() - before).lines_flushed, 1u);
  EXPECT_EQ((ThreadCost() - before).fences, 0u);
}

// Two entries of a group that share a line are written once; the next log's header is written with
// the last entry of this one, under its fence.
TEST_F(AppendLogTest, LinesOfAGroup) {
  AppendGroup(1);
  const Cost before = ThreadCost();
  AppendGroup(4);  // entries 1, 2 and 3, 4: lines 0, 1, 2
  EXPECT_EQ((ThreadCost() - before).lines_flushed, 3u);
  const Cost last = ThreadCost();
  AppendGroup(1);
  EXPECT_EQ((ThreadCost() - last).lines_flushed, 2u);
  EXPECT_EQ((ThreadCost() - last).fences, 1u);
  const Cost next = ThreadCost();
  AppendGroup(1);
  EXPECT_EQ((ThreadCost() - next).lines_flushed, 1u);
  EXPECT_EQ((ThreadCost() - next).fences, 1u);
}

TEST_F(AppendLogTest, EveryFlippedByteOfAnEntryEndsTheLogThere) {
  for (unsigned i = 0; i < 3; ++i) AppendGroup(1);
  Reopen();
  const FoundLog log = OnlyLog();
  for (unsigned at = 0; at < sizeof(media::LogEntry); ++at) {
    EntryBytes(log, 2)[at] ^= 0x10;
    EXPECT_EQ(ReadBack(), First(2)) << "byte " << at;
    EntryBytes(log, 2)[at] ^= 0x10;
  }
  EXPECT_EQ(ReadBack(), sequences_);
}

TEST_F(AppendLogTest, NoFlippedBitOfAHeaderHidesTheLog) {
  AppendGroup(1);
  Reopen();
  auto* header = pool_->At<uint8_t>(OnlyLog().offset);
  for (unsigned bit = 0; bit < 8 * sizeof(media::LogHeader); ++bit) {
    const auto flip = [&] { header[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8); };
    flip();
    EXPECT_EQ(ReadBack(), sequences_) << "bit " << bit;
    flip();
  }
}

// A second flip could hide the log.
TEST_F(AppendLogTest, ADamagedCopyOfAHeaderIsReportedAndWrittenAgain) {
  AppendGroup(1);
  Reopen();
  const FoundLog log = OnlyLog();
  auto* header = pool_->At<uint8_t>(log.offset);
  const std::vector<uint8_t> before(header, header + sizeof(media::LogHeader));
  const uint32_t first = log_->TakeIds(8 * offsetof(media::LogHeader, reserved));
  for (unsigned bit = 0; bit < 8 * offsetof(media::LogHeader, reserved); ++bit) {
    log_->Keep(first + bit, log, 1);
    ASSERT_EQ(log_->repaired_headers(), bit);
    EXPECT_EQ(log_->DamagedHeader(first + bit), 0u);
    header[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
    EXPECT_EQ(log_->DamagedHeader(first + bit), log.offset) << "bit " << bit;
    log_->Keep(first + bit, log, 1);
    EXPECT_EQ(log_->repaired_headers(), bit + 1) << "bit " << bit;
    EXPECT_THAT(before, ElementsAreArray(header, before.size())) << "bit " << bit;
  }
}

// Wherever a crash cuts the repair: the other copy says what the log is.
TEST_F(AppendLogTest, AHeaderIsFoundAtEachStoreOfItsRepair) {
  struct Finder final : pmem::Tracer {
    std::function<void()> look = [] {};
    void OnStore(const void*, size_t, bool) override { look(); }
    void OnFlush(const void*) override {}
    void OnFence() override {}
    void OnCrashPoint(std::string_view) override {}
    bool OnCanary(std::string_view) override { return false; }
  } finder;
  AppendGroup(1);
  for (const unsigned word : {0u, 1u, 2u, 3u, 4u, 5u}) {
    arena_.options().tracer = &finder;
    Reopen();
    const FoundLog log = OnlyLog();
    *pool_->At<uint64_t>(log.offset + word * 8) ^= 0xff;
    unsigned stores = 0;
    finder.look = [&] {
      ++stores;
      EXPECT_EQ(OnlyLog().version, log.version) << "word " << word;
    };
    log_->Keep(log_->TakeIds(1), log, 1);
    finder.look = [] {};
    EXPECT_EQ(stores, 3u);
  }
  log_.reset();
  pool_.reset();
}

TEST_F(AppendLogTest, AnOpenLogsHeaderAndAFreeOnesAreNotLookedAt) {
  const uint32_t id = AppendGroup(1);
  for (const pmem::Chunk& chunk : pool_->Chunks()) {
    *pool_->At<uint64_t>(chunk.begin) ^= 1;
  }
  EXPECT_EQ(log_->DamagedHeader(id), 0u);
  while (AppendGroup(1) == id) {
  }
  EXPECT_NE(log_->DamagedHeader(id), 0u);
  for (unsigned i = 0; i < kEntries; ++i) log_->Release(id);
  EXPECT_EQ(log_->DamagedHeader(id), 0u);
}

TEST_F(AppendLogTest, AHeaderOfWhichNeitherCopyIsWholeIsNone) {
  AppendGroup(1);
  Reopen();
  auto* header = pool_->At<media::LogHeader>(OnlyLog().offset);
  pool_->medium().Store(header->version, header->version.Load() ^ 1);
  pool_->medium().Store(header->copy[2], header->copy[2].Load() ^ 1);
  EXPECT_TRUE(log_->FindLogs(2).empty());
}

// As pools of earlier builds have it.
TEST_F(AppendLogTest, AHeaderNeedsNoCopy) {
  AppendGroup(1);
  Reopen();
  auto* header = pool_->At<media::LogHeader>(OnlyLog().offset);
  for (pmem::Word& word : header->copy) pool_->medium().Store(word, 0);
  EXPECT_EQ(ReadBack(), sequences_);
  const uint32_t id = log_->TakeIds(1);
  log_->Keep(id, OnlyLog(), 1);
  EXPECT_EQ(log_->repaired_headers(), 0u);
  EXPECT_EQ(log_->DamagedHeader(id), 0u);
}

TEST_F(AppendLogTest, AnEntryIsBoundToItsPlace) {
  AppendGroup(1);
  AppendGroup(1);
  Reopen();
  const FoundLog log = OnlyLog();
  std::copy_n(EntryBytes(log, 0), sizeof(media::LogEntry), EntryBytes(log, 1));
  EXPECT_EQ(ReadBack(), First(1));
}

// A group that a crash has cut is dropped as a whole, wherever it was cut.
TEST_F(AppendLogTest, AGroupCountsWholeOrNotAtAll) {
  AppendGroup(1);
  AppendGroup(1);
  AppendGroup(3);
  Reopen();
  const FoundLog log = OnlyLog();
  for (unsigned mask = 1; mask < 8; ++mask) {
    const auto flip = [&] {
      for (unsigned i = 0; i < 3; ++i) {
        if ((mask >> i & 1) != 0) EntryBytes(log, 2 + i)[0] ^= 1;
      }
    };
    flip();
    EXPECT_EQ(ReadBack(), First(2)) << "cut " << mask;
    flip();
  }
  EXPECT_EQ(ReadBack(), sequences_);
}

TEST_F(AppendLogTest, OnlyTheLastGroupIsUnproved) {
  AppendGroup(2);
  AppendGroup(1);
  AppendGroup(2);
  Reopen();
  std::vector<bool> in_last_group;
  ReadBack(&in_last_group);
  EXPECT_THAT(in_last_group, ElementsAre(false, false, false, true, true));
}

// After the tail a crash leaves entries of one group only; anything else is damage.
TEST_F(AppendLogTest, AHoleIsDamageAndIsNamed) {
  for (unsigned i = 0; i < kEntries; ++i) AppendGroup(1);
  Reopen();
  FoundLog log = log_->FindLogs(2).at(0);
  for (const FoundLog& found : log_->FindLogs(2)) {
    if (found.version < log.version) log = found;
  }
  for (unsigned at = 0; at + 2 < kEntries; ++at) {
    EntryBytes(log, at)[5] ^= 1;
    std::vector<FoundEntry> entries;
    std::string problem;
    EXPECT_FALSE(log_->ReadLog(log, &entries, &problem)) << at;
    EXPECT_THAT(problem, HasSubstr("entry " + std::to_string(at)));
    EXPECT_THAT(problem, HasSubstr("offset " + std::to_string(log.offset)));
    EntryBytes(log, at)[5] ^= 1;
  }
}

// The first entry announces two more in its group, the second is a group of its own: no crash
// leaves that.
TEST_F(AppendLogTest, AGroupThatAnotherCutsShortIsDamage) {
  ASSERT_TRUE(log_->ReserveInOneLog(2, pmem::ReservePolicy::kKeep));
  for (const unsigned left : {2u, 0u}) {
    (void)log_->Append({1, 2}, pool_->TakeSequence(1), LogOp::kPut, left, 0);
  }
  pool_->medium().Fence();
  Reopen();
  std::vector<FoundEntry> entries;
  std::string problem;
  EXPECT_FALSE(log_->ReadLog(OnlyLog(), &entries, &problem));
  EXPECT_THAT(problem, HasSubstr("entry 0 is damaged"));
  EXPECT_TRUE(entries.empty());
}

TEST_F(AppendLogTest, SpaceIsUsedAgainUnderAHigherVersion) {
  for (unsigned i = 0; i + 1 < kEntries; ++i) AppendGroup(1);
  Reopen();
  const FoundLog old_log = OnlyLog();
  // Nothing is kept: all space is free, and full of old entries.
  FinishRecovery();
  sequences_.clear();
  AppendGroup(1);
  Reopen();
  EXPECT_EQ(OnlyLog().offset, old_log.offset);
  EXPECT_GT(OnlyLog().version, old_log.version);
  EXPECT_EQ(ReadBack(), sequences_);
}

TEST_F(AppendLogTest, ALogIsFreeWhenItsLastEntryIsReleased) {
  std::vector<uint32_t> first;
  for (unsigned i = 0; i < kEntries; ++i) first.push_back(AppendGroup(1));
  const uint32_t open = AppendGroup(1);
  ASSERT_NE(open, first[0]);
  const uint64_t live = log_->live_bytes();
  for (unsigned i = 0; i + 1 < kEntries; ++i) log_->Release(first[i]);
  EXPECT_EQ(log_->live_bytes(), live);
  log_->Release(first.back());
  EXPECT_LT(log_->live_bytes(), live);
  // An open log stays, even with nothing valid in it.
  log_->Release(open);
  std::vector<uint32_t> still;
  log_->VisitLive([&](uint32_t id, auto...) { still.push_back(id); });
  EXPECT_THAT(still, ElementsAre(open));
  EXPECT_EQ(log_->counters().logs_reused, 0u);
  for (unsigned i = 0; i + 1 < kEntries; ++i) AppendGroup(1);
  EXPECT_EQ(log_->counters().logs_reused, 1u);
  EXPECT_EQ(log_->counters().logs_opened, 3u);
}

// A log is never counted between the steps of closing it.
TEST_F(AppendLogTest, CountsAreRightWhileLogsAreSwitched) {
  constexpr uint64_t kVisits = 5'000'000;
  std::atomic<uint64_t> visits{0};
  std::thread writer([&] {
    std::deque<uint32_t> kept;
    while (visits.load(std::memory_order_relaxed) < kVisits) {
      kept.push_back(AppendGroup(1));
      if (kept.size() <= 3 * kEntries) continue;
      log_->Release(kept.front());
      kept.pop_front();
    }
  });
  while (visits < kVisits) {
    log_->VisitLive([&](uint32_t id, uint32_t valid) {
      ++visits;
      EXPECT_LE(valid, kEntries) << "log " << id;
    });
  }
  writer.join();
}

// Steady use needs a constant number of logs, whatever the number of entries.
TEST_F(AppendLogTest, SteadyUseTakesNoMoreSpace) {
  for (unsigned i = 0; i < 3 * kEntries; ++i) log_->Release(AppendGroup(1));
  const uint64_t chunks = pool_->Chunks().size();
  for (unsigned i = 0; i < 2000; ++i) log_->Release(AppendGroup(1));
  EXPECT_EQ(pool_->Chunks().size(), chunks);
  EXPECT_EQ(log_->owed(), 0u);
}

TEST_F(AppendLogTest, TheLogThatWaitsLongestComesFirst) {
  std::vector<uint32_t> ids;
  for (unsigned i = 0; i < 3 * kEntries + 1; ++i) ids.push_back(AppendGroup(1));
  const uint32_t closed[] = {ids[0], ids[kEntries], ids[2 * kEntries]};
  // One by one, and each again only after all others; never the open one.
  for (const uint32_t id : {closed[0], closed[1], closed[2], closed[0], closed[1]}) {
    EXPECT_EQ(Next().id, id);
  }
  for (unsigned i = 0; i < kEntries; ++i) log_->Release(closed[2]);
  EXPECT_EQ(Next().id, closed[0]);
  EXPECT_EQ(Next().id, closed[1]);
  EXPECT_EQ(Next().id, closed[0]) << "the one that is free is gone";
}

// Another thread's logs as well as the own ones.
TEST_F(AppendLogTest, LogsOfAllThreadsComeByAge) {
  const uint32_t first = AppendGroup(kEntries);
  uint32_t second = Log::kNoLog;
  std::thread([&] {
    second = AppendGroup(kEntries);
    AppendGroup(1);
  }).join();
  AppendGroup(1);  // closes the first, after the other thread has closed its own
  for (const uint32_t id : {second, first, second, first}) {
    EXPECT_EQ(Next().id, id);
    AppendGroup(1);  // age is measured in sequence numbers
  }
}

TEST_F(AppendLogTest, AnOldLogIsReadAsItWas) {
  const uint32_t id = AppendGroup(kEntries);
  AppendGroup(1);
  const Log::OldLog old = Next();
  EXPECT_EQ(ReadOld(old), First(kEntries));
  EXPECT_TRUE(log_->IsLive(old));
  for (unsigned i = 0; i < kEntries; ++i) log_->Release(id);
  EXPECT_FALSE(log_->IsLive(old));
  for (unsigned i = 0; i < 2 * kEntries; ++i) AppendGroup(1);
  EXPECT_EQ(log_->counters().logs_reused, 1u);
  EXPECT_FALSE(log_->IsLive(old));
  EXPECT_TRUE(ReadOld(old).empty()) << "its space has another life";
}

// Each entry pays for examining one of an old log, and above the limit for two.
TEST_F(AppendLogTest, WhatIsOpenedNearTheLimitIsOwed) {
  while (log_->live_bytes() <= kLimit - kLimit / 8) {
    AppendGroup(1);
    EXPECT_TRUE(log_->owed() == 0 || log_->live_bytes() > kLimit - kLimit / 8);
  }
  EXPECT_EQ(log_->owed(), kEntries);
  EXPECT_EQ(log_->TakeOwed(1), 1u);
  EXPECT_EQ(log_->TakeOwed(100), kEntries - 1);
  EXPECT_EQ(log_->owed(), 0u);
  while (log_->live_bytes() <= kLimit) AppendGroup(1);
  log_->Forgive();
  while (log_->owed() == 0) AppendGroup(1);
  EXPECT_EQ(log_->owed(), 2 * kEntries);
  EXPECT_EQ(log_->TakeOwed(1), 2u);
  Log::OldLog old;
  while (log_->live_bytes() > kLimit / 2 && log_->NextToEmpty(&old)) {
    while (log_->IsLive(old)) log_->Release(old.id);
  }
  EXPECT_EQ(log_->TakeOwed(1), 0u) << "below it nothing is owed any more";
  EXPECT_EQ(log_->owed(), 0u);
}

TEST_F(AppendLogTest, RecoveryKeepsWhatIsNeededAndFreesTheRest) {
  for (unsigned i = 0; i < 3 * kEntries; ++i) AppendGroup(1);
  Reopen();
  std::vector<FoundLog> logs = log_->FindLogs(2);
  std::sort(logs.begin(), logs.end(),
            [](const auto& a, const auto& b) { return a.version < b.version; });
  ASSERT_EQ(logs.size(), 4u);  // the prepared one has no entry
  const uint32_t kept = log_->TakeIds(1);
  log_->Keep(kept, logs[1], 2);
  FinishRecovery();
  const std::vector<uint64_t> needed(sequences_.begin() + kEntries,
                                     sequences_.begin() + 2 * kEntries);
  for (unsigned i = 0; i < 50 * kEntries; ++i) log_->Release(AppendGroup(1));
  const Log::OldLog old = Next();
  EXPECT_EQ(old.id, kept) << "older than all that was closed since";
  EXPECT_EQ(ReadOld(old), needed);
  EXPECT_EQ(Next().id, kept);
  log_->Release(kept);
  log_->Release(kept);
  Log::OldLog none;
  EXPECT_FALSE(log_->NextToEmpty(&none));
}

// What a power cut takes back meanwhile is in them.
TEST_F(AppendLogTest, NoLogThatRecoveryHasFoundIsOverwrittenBeforeItsEnd) {
  for (unsigned i = 0; i < 3 * kEntries; ++i) AppendGroup(1);
  Reopen();
  const std::vector<FoundLog> found = log_->FindLogs(2);
  const uint32_t kept = log_->TakeIds(1);
  log_->Keep(kept, found[1], 1);
  log_->TakeOwnChunks();
  log_->Release(kept);
  const auto write = [&] {
    for (unsigned i = 0; i < 50 * kEntries; ++i) log_->Release(AppendGroup(1));
  };
  const auto there = [&] {
    const std::vector<FoundLog> now = log_->FindLogs(2);
    return std::ranges::count_if(found, [&](const FoundLog& log) {
      return std::ranges::any_of(now, [&](const FoundLog& other) {
        return other.offset == log.offset && other.version == log.version;
      });
    });
  };
  write();
  EXPECT_EQ(there(), static_cast<long>(found.size()));
  FinishRecovery();
  write();
  EXPECT_LT(there(), static_cast<long>(found.size()));
}

TEST_F(AppendLogTest, LogsKeptByRecoveryComeBeforeAllOthers) {
  for (unsigned i = 0; i < 4 * kEntries; ++i) AppendGroup(1);
  Reopen();
  const std::vector<FoundLog> logs = log_->FindLogs(2);
  const uint32_t first = log_->TakeIds(3);
  for (uint32_t i = 0; i < 3; ++i) log_->Keep(first + i, logs[i], 1);
  FinishRecovery();
  const uint32_t closed = AppendGroup(kEntries);
  AppendGroup(1);
  log_->Release(first + 1);
  EXPECT_EQ(Next().id, first);
  EXPECT_EQ(Next().id, first + 2);
  EXPECT_EQ(Next().id, closed);
  log_->Release(first);
  log_->Release(first + 2);
  EXPECT_EQ(Next().id, closed);
  EXPECT_EQ(Next().id, closed);
}

TEST_F(AppendLogTest, WithoutANumberForALogThereIsNone) {
  EXPECT_EQ(log_->TakeIds(1u << 31), Log::kNoLog);
  while (log_->TakeIds(1) != Log::kNoLog) {
  }
  EXPECT_FALSE(log_->ReserveInOneLog(1, pmem::ReservePolicy::kUse));
  EXPECT_EQ(log_->live_bytes(), 0u);
}

}  // namespace
}  // namespace lodgekv
