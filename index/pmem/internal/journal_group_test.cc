// Groups in memory: runs of lines, masks, and a lack of room.
#include "index/pmem/internal/journal_group.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "index/pmem/internal/group_crc.h"

namespace lodgekv::pmem {
namespace {

constexpr uint32_t kSeed = 3;
constexpr uint64_t kPoolLines = 1000;

class JournalGroupTest : public ::testing::Test {
 protected:
  JournalGroupTest() : pool_(kPoolLines * kLineBytes) {
    for (size_t i = 0; i < pool_.size(); ++i) pool_[i] = static_cast<char>(i / kLineBytes);
  }
  static std::vector<uint64_t> From(uint64_t first, uint64_t count) {
    std::vector<uint64_t> lines(count);
    std::iota(lines.begin(), lines.end(), first);
    return lines;
  }
  // Returns the entries, after checking the line contents or the count that follows each.
  std::vector<JournalEntry> Entries(std::span<const std::byte> group) {
    media::JournalGroup header;
    std::memcpy(&header, group.data(), sizeof header);
    std::span<const std::byte> payload = group.subspan(sizeof header, header.payload_bytes);
    std::vector<JournalEntry> entries;
    while (!payload.empty()) {
      uint64_t word;
      std::memcpy(&word, payload.data(), sizeof word);
      entries.push_back(JournalEntry::Decode(word));
      const JournalEntry& entry = entries.back();
      payload = payload.subspan(sizeof word);
      const size_t bytes = entry.lines == 0 ? sizeof word : entry.lines * kLineBytes;
      if (entry.lines != 0) {
        EXPECT_EQ(std::memcmp(payload.data(), &pool_[entry.line * kLineBytes], bytes), 0);
      }
      payload = payload.subspan(bytes);
    }
    return entries;
  }

  std::vector<char> pool_;
};

TEST_F(JournalGroupTest, NeighboursAreOneEntryUpTo255Lines) {
  JournalGroupBuffer group(65536, kPoolLines, {});
  EXPECT_TRUE(group.empty());
  EXPECT_EQ(group.bytes(), kJournalBlock);
  std::vector<uint64_t> lines = From(10, 300);
  lines.push_back(400);
  EXPECT_EQ(group.Capture(pool_.data(), lines, {}), lines.size());
  EXPECT_FALSE(group.empty());
  const auto sealed = group.Seal(7, kSeed);
  EXPECT_EQ(sealed.size() % kJournalBlock, 0U);
  const auto entries = Entries(sealed);
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].line, 10U);
  EXPECT_EQ(entries[0].lines, 255U);
  EXPECT_EQ(entries[1].line, 265U);
  EXPECT_EQ(entries[1].lines, 45U);
  EXPECT_EQ(entries[2].line, 400U);
  group.Reset();
  EXPECT_TRUE(group.empty());
}

TEST_F(JournalGroupTest, HasAHeaderWithTheChecksumOfAll) {
  JournalGroupBuffer group(65536, kPoolLines, {});
  const uint64_t lines[] = {1, 5};
  group.Capture(pool_.data(), lines, {});
  const auto sealed = group.Seal(7, kSeed);
  media::JournalGroup header;
  std::memcpy(&header, sealed.data(), sizeof header);
  EXPECT_EQ(header.magic, media::kGroupMagic);
  EXPECT_EQ(header.sequence, 7U);
  EXPECT_EQ(header.payload_bytes, 2 * (sizeof(uint64_t) + kLineBytes));
  std::vector<std::byte> copy(sealed.begin(), sealed.end());
  std::memset(&copy[offsetof(media::JournalGroup, crc)], 0, sizeof header.crc);
  EXPECT_EQ(GroupCrc(kSeed, copy.data(), sizeof header + header.payload_bytes), header.crc);
}

TEST_F(JournalGroupTest, LinesOfLibpmemobjHaveAMaskAndARunOfTheirOwn) {
  JournalGroupBuffer group(65536, kPoolLines, {20, 22, 0b1100});
  group.Capture(pool_.data(), From(18, 6), {});
  const auto entries = Entries(group.Seal(1, kSeed));
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].words, JournalEntry::kAllWords);
  EXPECT_EQ(entries[1].line, 20U);
  EXPECT_EQ(entries[1].lines, 2U);
  EXPECT_EQ(entries[1].words, 0b1100);
  EXPECT_EQ(entries[2].line, 22U);
}

TEST_F(JournalGroupTest, TakesWhatHasRoom) {
  JournalGroupBuffer group(kJournalBlock, kPoolLines, {});
  const std::vector<uint64_t> lines = From(0, 200);
  const size_t taken = group.Capture(pool_.data(), lines, {});
  EXPECT_EQ(taken, (kJournalBlock - sizeof(media::JournalGroup) - sizeof(uint64_t)) / kLineBytes);
  EXPECT_EQ(group.Capture(pool_.data(), lines, {}), 0U);
  EXPECT_EQ(group.bytes(), kJournalBlock);
  unsigned revocations = 0;
  while (group.AddRevocation(1, 1)) ++revocations;
  EXPECT_LT(revocations, 4U);
}

TEST_F(JournalGroupTest, ARevocationEndsWithThePool) {
  JournalGroupBuffer group(kJournalBlock, kPoolLines, {});
  ASSERT_TRUE(group.AddRevocation(990, 50));
  const auto sealed = group.Seal(1, kSeed);
  uint64_t words[2];
  std::memcpy(words, &sealed[sizeof(media::JournalGroup)], sizeof words);
  EXPECT_EQ(JournalEntry::Decode(words[0]).line, 990U);
  EXPECT_EQ(JournalEntry::Decode(words[0]).lines, 0U);
  EXPECT_EQ(words[1], 10U);
}

}  // namespace
}  // namespace lodgekv::pmem
