#include "index/lodgetree/partitioned_version_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "index/cost.h"
#include "index/pmem/arena_test_util.h"

namespace lodgekv::lodgetree {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Log = PartitionedVersionLog;

constexpr unsigned kEntries = 6;  // L
constexpr uint64_t kLimit = 4096;

class PartitionedVersionLogTest : public ::testing::Test {
 protected:
  PartitionedVersionLogTest() { New(); }

  void New() { log_ = std::make_unique<Log>(*pool_, kEntries, kLimit); }
  // What a process that begins after a crash sees.
  void Reopen() {
    log_.reset();
    pool_.reset();
    pool_ = arena_.Open();
    New();
    log_->Adopt(pool_->Chunks());
  }

  // One fence group of `count` entries; returns their log.
  uint32_t AppendGroup(unsigned count) {
    EXPECT_TRUE(log_->Reserve(count, pmem::Reserve::kKeep));
    uint32_t id = Log::kNoLog;
    for (unsigned left = count; left-- > 0;) {
      const uint64_t sequence = pool_->TakeSequence(1);
      sequences_.push_back(sequence);
      const auto op = sequence % 2 == 0 ? media::LogOp::kPut : media::LogOp::kDelete;
      const uint32_t at = log_->Append({sequence * 3, sequence * 5}, sequence, op, left,
                                       static_cast<uint32_t>(sequence * 7));
      EXPECT_TRUE(id == Log::kNoLog || id == at) << "a group lies in one log";
      id = at;
    }
    pool_->medium().Fence();
    return id;
  }

  // The numbers of the entries that the logs yield, oldest log first.
  std::vector<uint64_t> ReadBack(std::vector<bool>* in_last_group = nullptr) {
    std::vector<Log::FoundLog> logs = log_->FindLogs(2);
    std::sort(logs.begin(), logs.end(),
              [](const auto& a, const auto& b) { return a.version < b.version; });
    std::vector<uint64_t> sequences;
    for (const Log::FoundLog& log : logs) {
      std::vector<ReadEntry> entries;
      std::string problem;
      EXPECT_TRUE(log_->ReadLog(log, &entries, &problem)) << problem;
      for (const ReadEntry& entry : entries) {
        sequences.push_back(entry.sequence);
        if (in_last_group != nullptr) in_last_group->push_back(entry.in_last_group);
        EXPECT_EQ(entry.pair.key, entry.sequence * 3);
        EXPECT_EQ(entry.pair.value, entry.sequence * 5);
        EXPECT_EQ(entry.record_crc, static_cast<uint32_t>(entry.sequence * 7));
        EXPECT_EQ(entry.op, entry.sequence % 2 == 0 ? media::LogOp::kPut : media::LogOp::kDelete);
      }
    }
    return sequences;
  }

  Log::FoundLog OnlyLog() {
    const std::vector<Log::FoundLog> logs = log_->FindLogs(2);
    EXPECT_EQ(logs.size(), 1u);
    return logs.at(0);
  }
  uint8_t* EntryBytes(const Log::FoundLog& log, unsigned position) {
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
  const uint64_t meta = media::PackMeta(0xfffffffffffff, media::LogOp::kAppliedIndex, 1023);
  EXPECT_EQ(media::SequenceOf(meta), 0xfffffffffffffu);
  EXPECT_EQ(media::OpOf(meta), media::LogOp::kAppliedIndex);
  EXPECT_EQ(media::LeftOf(meta), 1023u);
  // docs/media_format.md shows this one.
  EXPECT_EQ(media::PackMeta(5, media::LogOp::kDelete, 3), 0x5403u);
}

TEST_F(PartitionedVersionLogTest, ReadsBackWhatWasAppended) {
  for (unsigned i = 0; i < 4 * kEntries + 3; ++i) AppendGroup(1);
  Reopen();
  EXPECT_EQ(ReadBack(), sequences_);
}

TEST_F(PartitionedVersionLogTest, AGroupLiesInOneLogAndLongOnesInALongLog) {
  AppendGroup(4);
  AppendGroup(4);  // no room behind the first
  AppendGroup(kEntries + 1);
  AppendGroup(log_->largest_group());
  EXPECT_GT(log_->largest_group(), kEntries);
  EXPECT_LE(log_->largest_group(), media::kLargestGroup);
  Reopen();
  EXPECT_EQ(ReadBack(), sequences_);
}

TEST_F(PartitionedVersionLogTest, OneLineAnEntryAndNoFence) {
  AppendGroup(1);
  ASSERT_TRUE(log_->Reserve(1, pmem::Reserve::kKeep));
  const Cost before = ThreadCost();
  (void)log_->Append({1, 2}, pool_->TakeSequence(1), media::LogOp::kPut, 0, 0);
  EXPECT_EQ((ThreadCost() - before).lines_flushed, 1u);
  EXPECT_EQ((ThreadCost() - before).fences, 0u);
}

// Two entries of a group that share a line are written once; the next log's header comes with the
// last entry of this one, under its fence.
TEST_F(PartitionedVersionLogTest, LinesOfAGroup) {
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

TEST_F(PartitionedVersionLogTest, EveryFlippedByteOfAnEntryEndsTheLogThere) {
  for (unsigned i = 0; i < 3; ++i) AppendGroup(1);
  Reopen();
  const Log::FoundLog log = OnlyLog();
  for (unsigned at = 0; at < sizeof(media::LogEntry); ++at) {
    EntryBytes(log, 2)[at] ^= 0x10;
    EXPECT_EQ(ReadBack(), First(2)) << "byte " << at;
    EntryBytes(log, 2)[at] ^= 0x10;
  }
  EXPECT_EQ(ReadBack(), sequences_);
}

TEST_F(PartitionedVersionLogTest, EveryFlippedByteOfAHeaderHidesTheLog) {
  AppendGroup(1);
  Reopen();
  auto* header = pool_->At<uint8_t>(OnlyLog().offset);
  for (unsigned at = 0; at < offsetof(media::LogHeader, reserved); ++at) {
    header[at] ^= 0x10;
    EXPECT_TRUE(log_->FindLogs(2).empty()) << "byte " << at;
    header[at] ^= 0x10;
  }
  EXPECT_EQ(ReadBack(), sequences_);
}

TEST_F(PartitionedVersionLogTest, AnEntryIsBoundToItsPlace) {
  AppendGroup(1);
  AppendGroup(1);
  Reopen();
  const Log::FoundLog log = OnlyLog();
  std::copy_n(EntryBytes(log, 0), sizeof(media::LogEntry), EntryBytes(log, 1));
  EXPECT_EQ(ReadBack(), First(1));
}

// A group that a crash has cut is dropped whole, wherever it was cut.
TEST_F(PartitionedVersionLogTest, AGroupCountsWholeOrNotAtAll) {
  AppendGroup(1);
  AppendGroup(1);
  AppendGroup(3);
  Reopen();
  const Log::FoundLog log = OnlyLog();
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

TEST_F(PartitionedVersionLogTest, OnlyTheLastGroupIsUnproved) {
  AppendGroup(2);
  AppendGroup(1);
  AppendGroup(2);
  Reopen();
  std::vector<bool> in_last_group;
  ReadBack(&in_last_group);
  EXPECT_THAT(in_last_group, ElementsAre(false, false, false, true, true));
}

// Behind the tail a crash leaves entries of one group only; anything else is damage.
TEST_F(PartitionedVersionLogTest, AHoleIsDamageAndIsNamed) {
  for (unsigned i = 0; i < kEntries; ++i) AppendGroup(1);
  Reopen();
  Log::FoundLog log = log_->FindLogs(2).at(0);
  for (const Log::FoundLog& found : log_->FindLogs(2)) {
    if (found.version < log.version) log = found;
  }
  for (unsigned at = 0; at + 2 < kEntries; ++at) {
    EntryBytes(log, at)[5] ^= 1;
    std::vector<ReadEntry> entries;
    std::string problem;
    EXPECT_FALSE(log_->ReadLog(log, &entries, &problem)) << at;
    EXPECT_THAT(problem, HasSubstr("entry " + std::to_string(at)));
    EXPECT_THAT(problem, HasSubstr("offset " + std::to_string(log.offset)));
    EntryBytes(log, at)[5] ^= 1;
  }
}

// The first entry tells of two more in its group, the second is a group of its own: no crash leaves
// that.
TEST_F(PartitionedVersionLogTest, AGroupThatAnotherCutsShortIsDamage) {
  ASSERT_TRUE(log_->Reserve(2, pmem::Reserve::kKeep));
  for (const unsigned left : {2u, 0u}) {
    (void)log_->Append({1, 2}, pool_->TakeSequence(1), media::LogOp::kPut, left, 0);
  }
  pool_->medium().Fence();
  Reopen();
  std::vector<ReadEntry> entries;
  std::string problem;
  EXPECT_FALSE(log_->ReadLog(OnlyLog(), &entries, &problem));
  EXPECT_THAT(problem, HasSubstr("entry 0 is damaged"));
  EXPECT_TRUE(entries.empty());
}

TEST_F(PartitionedVersionLogTest, SpaceIsUsedAgainUnderAHigherVersion) {
  for (unsigned i = 0; i + 1 < kEntries; ++i) AppendGroup(1);
  Reopen();
  const Log::FoundLog old_log = OnlyLog();
  // Nothing is kept: all space is free, and full of old entries.
  log_->FinishAdopt();
  sequences_.clear();
  AppendGroup(1);
  Reopen();
  EXPECT_EQ(OnlyLog().offset, old_log.offset);
  EXPECT_GT(OnlyLog().version, old_log.version);
  EXPECT_EQ(ReadBack(), sequences_);
}

TEST_F(PartitionedVersionLogTest, ALogIsFreeWhenItsLastEntryIsReleased) {
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

// Steady use needs a constant number of logs, whatever the number of entries.
TEST_F(PartitionedVersionLogTest, SteadyUseTakesNoMoreSpace) {
  for (unsigned i = 0; i < 3 * kEntries; ++i) log_->Release(AppendGroup(1));
  const uint64_t chunks = pool_->Chunks().size();
  for (unsigned i = 0; i < 2000; ++i) log_->Release(AppendGroup(1));
  EXPECT_EQ(pool_->Chunks().size(), chunks);
  EXPECT_FALSE(log_->OverLimit());
}

TEST_F(PartitionedVersionLogTest, TheOldestLogsComeFirst) {
  std::vector<uint32_t> ids;
  while (!log_->OverLimit()) ids.push_back(AppendGroup(1));
  EXPECT_GT(log_->live_bytes(), kLimit);
  const auto ids_after = [&](unsigned most, uint64_t after) {
    std::vector<uint32_t> result;
    for (const auto& log : log_->OldestLogs(most, after)) result.push_back(log.id);
    return result;
  };
  const std::vector<uint32_t> oldest = ids_after(2, 0);
  EXPECT_THAT(oldest, ElementsAre(ids[0], ids[kEntries]));
  const uint64_t version = log_->OldestLogs(2, 0).front().version;
  EXPECT_THAT(ids_after(1, version), ElementsAre(ids[kEntries])) << "goes on behind a version";
  std::vector<uint64_t> sequences;
  for (const ReadEntry& entry : log_->Entries(ids[0])) sequences.push_back(entry.sequence);
  EXPECT_EQ(sequences, First(kEntries));
  EXPECT_EQ(std::count(oldest.begin(), oldest.end(), ids.back()), 0) << "the open log";
}

TEST_F(PartitionedVersionLogTest, RecoveryKeepsWhatIsNeededAndFreesTheRest) {
  for (unsigned i = 0; i < 3 * kEntries; ++i) AppendGroup(1);
  Reopen();
  std::vector<Log::FoundLog> logs = log_->FindLogs(2);
  std::sort(logs.begin(), logs.end(),
            [](const auto& a, const auto& b) { return a.version < b.version; });
  ASSERT_EQ(logs.size(), 4u);  // the prepared one has no entry
  const uint32_t kept = log_->TakeIds(1);
  log_->Keep(kept, logs[1], 2);
  log_->FinishAdopt();
  const std::vector<uint64_t> needed(sequences_.begin() + kEntries,
                                     sequences_.begin() + 2 * kEntries);
  for (unsigned i = 0; i < 50 * kEntries; ++i) log_->Release(AppendGroup(1));
  std::vector<uint64_t> left;
  for (const ReadEntry& entry : log_->Entries(kept)) left.push_back(entry.sequence);
  EXPECT_EQ(left, needed);
  log_->Release(kept);
  log_->Release(kept);
  EXPECT_EQ(log_->OldestLogs(10, 0).size(), 0u);
}

TEST_F(PartitionedVersionLogTest, WithoutANumberForALogThereIsNone) {
  EXPECT_EQ(log_->TakeIds(1u << 31), Log::kNoLog);
  while (log_->TakeIds(1) != Log::kNoLog) {
  }
  EXPECT_FALSE(log_->Reserve(1, pmem::Reserve::kUse));
  EXPECT_EQ(log_->live_bytes(), 0u);
}

}  // namespace
}  // namespace lodgekv::lodgetree
