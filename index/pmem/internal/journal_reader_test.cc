// What a reader finds in a journal after a crash.
#include "index/pmem/internal/journal_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "index/pmem/crc32c.h"
#include "index/pmem/testing/journal_test_util.h"

namespace lodgekv::pmem {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kSeed = 99;
constexpr uint64_t kSector = 512;

class JournalReaderTest : public ::testing::Test {
 protected:
  // The numbers of the groups found.
  std::vector<uint64_t> Found(uint32_t seed = kSeed) {
    JournalReader reader(storage_, kTestSegment, seed);
    status_ = reader.Find();
    std::vector<uint64_t> numbers;
    if (status_.ok()) {
      status_ = reader.ForEach([&](uint64_t sequence, std::span<const std::byte>) {
        numbers.push_back(sequence);
        return absl::OkStatus();
      });
    }
    return numbers;
  }
  // After the last one.
  void Put(uint64_t sequence, uint64_t lines, uint32_t seed = kSeed) {
    at_ += PutGroup(storage_, at_, sequence, seed, pool_, sequence, lines);
  }
  void PutCheckpoint(uint64_t slot, uint64_t replay_from, uint32_t seed = kSeed) {
    media::JournalCheckpoint checkpoint{replay_from, 0, 0};
    checkpoint.crc = Crc32c(seed, &checkpoint, offsetof(media::JournalCheckpoint, crc));
    std::memcpy(&storage_.content[kJournalCheckpointBegin + slot * kJournalBlock], &checkpoint,
                sizeof checkpoint);
  }

  MemoryStorage storage_;
  std::vector<std::byte> pool_{65536, std::byte{5}};
  uint64_t at_ = kJournalSegmentsBegin;
  absl::Status status_;
};

TEST_F(JournalReaderTest, FindsGroupsInTheirOrder) {
  EXPECT_THAT(Found(), IsEmpty());
  Put(1, 3);
  Put(2, 100);
  at_ = kJournalSegmentsBegin + 2 * kTestSegment;
  Put(4, 1);
  at_ = kJournalSegmentsBegin + 3 * kTestSegment;
  Put(3, 1);
  EXPECT_THAT(Found(), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(status_.ok()) << status_;
}

TEST_F(JournalReaderTest, BeginsWhereTheLatestCheckpointSays) {
  for (uint64_t sequence = 1; sequence <= 5; ++sequence) Put(sequence, 2);
  PutCheckpoint(1, 3);
  EXPECT_THAT(Found(), ElementsAre(3, 4, 5));
  PutCheckpoint(0, 5);
  EXPECT_THAT(Found(), ElementsAre(5));
  storage_.content[kJournalCheckpointBegin] ^= std::byte{1};
  EXPECT_THAT(Found(), ElementsAre(3, 4, 5));
  PutCheckpoint(0, 4, kSeed + 1);
  EXPECT_THAT(Found(), ElementsAre(3, 4, 5));
  PutCheckpoint(0, 6);
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(JournalReaderTest, LeavesATornLastGroupOutWhateverSectorIsMissing) {
  Put(1, 2);
  const uint64_t begin = at_;
  std::fill(&storage_.content[begin], &storage_.content[begin] + kTestSegment / 2, std::byte{7});
  const std::vector<std::byte> before = storage_.content;
  Put(2, 100);
  const std::vector<std::byte> whole = storage_.content;
  const uint64_t used = sizeof(media::JournalGroup) + sizeof(uint64_t) + 100 * kLineBytes;
  for (uint64_t sector = begin; sector < at_; sector += kSector) {
    storage_.content = whole;
    std::memcpy(&storage_.content[sector], &before[sector], kSector);
    const bool counts = sector < begin + used;
    EXPECT_EQ(Found().size(), counts ? 1U : 2U) << (sector - begin) / kSector;
    EXPECT_TRUE(status_.ok()) << status_;
  }
}

// A torn group may hold, in an old sector, a complete old record in place of the new one, each with
// its own CRC32C. A checksum of the same kind cannot distinguish them.
TEST_F(JournalReaderTest, NoticesAnOldRecordWithAChecksumOfItsOwn) {
  const auto put_record = [&](uint64_t line, uint64_t value) {
    uint64_t words[8] = {value, value * 3, value * 5, 0, 0, 0, 0, 0};
    const uint32_t crc = Crc32c(kSeed, words, kLineBytes - sizeof crc);
    std::memcpy(&pool_[line * kLineBytes], words, sizeof words);
    std::memcpy(&pool_[(line + 1) * kLineBytes - sizeof crc], &crc, sizeof crc);
  };
  put_record(12, 1);
  PutGroup(storage_, at_, 1, kSeed - 1, pool_, 0, 20);
  const std::vector<std::byte> before = storage_.content;
  put_record(12, 2);
  PutGroup(storage_, at_, 1, kSeed, pool_, 0, 20);
  EXPECT_THAT(Found(), ElementsAre(1));
  const uint64_t sector = at_ + (sizeof(media::JournalGroup) + 12 * kLineBytes) / kSector * kSector;
  std::memcpy(&storage_.content[sector], &before[sector], kSector);
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_TRUE(status_.ok()) << status_;
}

TEST_F(JournalReaderTest, RefusesADamagedGroupThatHasOthersBehindIt) {
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) Put(sequence, 2);
  storage_.content[kJournalSegmentsBegin + kJournalBlock + 100] ^= std::byte{1};
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_EQ(status_, absl::DataLossError("it is damaged: group 2 is missing, group 3 (segment 0, "
                                         "offset 8192) is there"));
}

TEST_F(JournalReaderTest, TakesNothingOfAnotherSessionOrPool) {
  Put(1, 2, kSeed + 1);
  Put(2, 2, kSeed + 1);
  PutCheckpoint(0, 7, kSeed + 1);
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_THAT(Found(kSeed + 1), IsEmpty());
  at_ = kJournalSegmentsBegin;
  Put(1, 2);
  EXPECT_THAT(Found(), ElementsAre(1));
  EXPECT_NE(JournalSeed(1, 2), JournalSeed(2, 2));
  EXPECT_NE(JournalSeed(1, 2), JournalSeed(1, 3));
}

// --- the header ---

media::JournalHeader TestHeader() {
  media::JournalHeader header{};
  header.session = 5;
  header.segment_bytes = kTestSegment;
  header.needed = 1;
  return header;
}

absl::Status HeaderOf(MemoryStorage& storage) { return ReadJournalHeader(storage).status(); }

TEST(JournalHeaderTest, IsReadAsItWasWritten) {
  MemoryStorage storage;
  ASSERT_TRUE(WriteJournalHeader(storage, TestHeader()).ok());
  const auto header = ReadJournalHeader(storage);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->session, 5U);
  EXPECT_EQ(header->segment_bytes, kTestSegment);
  EXPECT_EQ(header->needed, 1U);
}

TEST(JournalHeaderTest, SaysWhatIsWrong) {
  MemoryStorage storage;
  EXPECT_EQ(HeaderOf(storage),
            absl::NotFoundError("it has no header: its creation was interrupted"));
  ASSERT_TRUE(WriteJournalHeader(storage, TestHeader()).ok());
  storage.content[40] ^= std::byte{1};
  EXPECT_EQ(HeaderOf(storage).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      HeaderOf(storage).message(),
      AllOf(HasSubstr("its header is damaged: the checksum is 0x"), HasSubstr(" is recorded")));
  storage.content[0] ^= std::byte{1};
  EXPECT_EQ(HeaderOf(storage),
            absl::DataLossError("it does not begin with the mark of a journal (0x4a564b6567646f4d "
                                "found, 0x4a564b6567646f4c expected): it is something else, or its "
                                "header is damaged"));
}

TEST(JournalHeaderTest, OfAnotherSizeOrVersion) {
  MemoryStorage longer(kJournalSegmentsBegin + kJournalSegments * kTestSegment + 4096);
  ASSERT_TRUE(WriteJournalHeader(longer, TestHeader()).ok());
  EXPECT_EQ(HeaderOf(longer),
            absl::DataLossError("it has 86016 bytes, its header records 4 segments of 16384: it "
                                "was truncated or extended"));
  MemoryStorage newer;
  ASSERT_TRUE(WriteJournalHeader(newer, TestHeader()).ok());
  media::JournalHeader header;
  std::memcpy(&header, newer.content.data(), sizeof header);
  header.format_version = 9;
  header.crc = 0;
  header.crc = Crc32c(~uint32_t{0}, &header, sizeof header);
  std::memcpy(newer.content.data(), &header, sizeof header);
  EXPECT_EQ(HeaderOf(newer), absl::FailedPreconditionError(
                                 "its header has format version 9, this program knows version 1"));
}

}  // namespace
}  // namespace lodgekv::pmem
