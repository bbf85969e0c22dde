// Revoked lines, compared with a plain list; and invalid entries.
#include "index/pmem/internal/journal_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "index/pmem/testing/journal_test_util.h"

namespace lodgekv::pmem {
namespace {

TEST(RevokedLinesTest, KnowTheLastRevocationOfEachLine) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    RevokedLines revoked;
    std::vector<uint64_t> last(64);  // the number of the last revocation
    for (uint64_t number = 1; number <= 12; ++number) {
      const uint64_t begin = random() % 64;
      const uint64_t end = begin + random() % (65 - begin);
      revoked.Add(begin, end, number);
      for (uint64_t line = begin; line < end; ++line) last[line] = number;
      for (uint64_t line = 0; line < 64; ++line) {
        for (uint64_t asked = 0; asked <= number; ++asked) {
          ASSERT_EQ(revoked.RevokedAfter(line, asked), last[line] > asked)
              << "line " << line << ", number " << asked << ", round " << round;
        }
      }
    }
  }
}

TEST(ReplayJournalTest, RefusesEntriesThatMakeNoSenseAndStoresNothing) {
  constexpr uint64_t kLines = 64;
  std::vector<std::byte> big(2 * kLines * kLineBytes, std::byte{5});
  for (const uint64_t first : {kLines, kLines - 1}) {
    MemoryStorage storage;
    PutGroup(storage, kJournalSegmentsBegin, 1, 9, big, 0, 4);
    PutGroup(storage, kJournalSegmentsBegin + kJournalBlock, 2, 9, big, first, 2);
    JournalReader reader(storage, kTestSegment, 9);
    ASSERT_TRUE(reader.Find().ok());
    Medium medium({});
    alignas(kLineBytes) char pool[kLines * kLineBytes] = {};
    JournalReplay replay;
    EXPECT_EQ(ReplayJournal(reader, medium, pool, sizeof pool, {}, &replay),
              absl::DataLossError("it is damaged: group 2 holds an entry that makes no sense"));
    EXPECT_EQ(pool[0], 0);
  }
}

}  // namespace
}  // namespace lodgekv::pmem
