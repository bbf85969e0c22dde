// What a pool says about the groups of its journal.
#include "index/pmem/internal/journal_marks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "index/pmem/crc32c.h"
#include "index/pmem/testing/journal_test_util.h"

namespace lodgekv::pmem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kSeed = 99;

TEST(JournalMarkTest, IsZeroForNothingAndDetectsEveryChangedByte) {
  EXPECT_EQ(EncodeMark(0), 0u);
  for (const uint64_t group :
       {uint64_t{0}, uint64_t{1}, uint64_t{12345}, (uint64_t{1} << 48) - 1}) {
    const uint64_t word = EncodeMark(group);
    EXPECT_EQ(DecodeMark(word).value(), group);
    for (unsigned byte = 0; byte < 8; ++byte) {
      for (uint64_t change = 1; change < 256; ++change) {
        const absl::Status status = DecodeMark(word ^ change << 8 * byte).status();
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << byte << " " << change;
      }
    }
  }
}

// A journal with the groups from `begin` to before `end`.
class CheckMomentTest : public ::testing::Test {
 protected:
  absl::Status Check(JournalMarks marks, uint64_t begin, uint64_t end) {
    MemoryStorage storage;
    const std::vector<std::byte> pool(65536);
    uint64_t at = kJournalSegmentsBegin;
    for (uint64_t group = begin; group < end; ++group) {
      at += PutGroup(storage, at, group, kSeed, pool, 1, 1);
    }
    media::JournalCheckpoint checkpoint{begin, 0, 0};
    checkpoint.crc = Crc32c(kSeed, &checkpoint, offsetof(media::JournalCheckpoint, crc));
    std::memcpy(&storage.content[kJournalCheckpointBegin], &checkpoint, sizeof checkpoint);
    JournalReader reader(storage, kTestSegment, kSeed);
    EXPECT_TRUE(reader.Find().ok());
    return CheckMoment(marks, reader);
  }
  void ExpectRefused(JournalMarks marks, const std::string& why, const std::string& numbers) {
    const absl::Status status = Check(marks, 5, 8);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(why), HasSubstr(numbers), HasSubstr("restore both")));
  }
};

TEST_F(CheckMomentTest, ACrashLeavesMarksWithinTheJournal) {
  EXPECT_TRUE(Check({5, 8}, 5, 8).ok());
  EXPECT_TRUE(Check({8, 8}, 5, 8).ok());  // while a checkpoint is under way
  EXPECT_TRUE(Check({5, 6}, 5, 8).ok());  // not written since
  EXPECT_TRUE(Check({1, 1}, 1, 1).ok());
  EXPECT_TRUE(Check({9, 9}, 9, 9).ok());
  EXPECT_TRUE(Check({}, 5, 8).ok());
}

TEST_F(CheckMomentTest, ALaterOrEarlierJournalIsRefused) {
  ExpectRefused({4, 8}, "to a later moment",
                "begins with group 5, and this copy of the pool needs "
                "those from 4 on");
  ExpectRefused({5, 9}, "to an earlier moment",
                "ends with group 7, and this copy of the pool was "
                "made after group 8");
  ExpectRefused({9, 0}, "to an earlier moment", "ends with group 7");
}

}  // namespace
}  // namespace lodgekv::pmem
