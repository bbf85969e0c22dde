// The journal's segments, and the set of pages.
#include "index/pmem/internal/journal_space.h"

#include <gtest/gtest.h>

#include "index/pmem/internal/page_set.h"

namespace lodgekv::pmem {
namespace {

constexpr uint64_t kSegment = 16384;
constexpr uint64_t kNow = 7;

TEST(JournalSpaceTest, SegmentsAreUsedInTurnAndAgainWhenTheyAreFree) {
  JournalSpace space(kSegment);
  EXPECT_EQ(space.total_bytes(), kJournalSegments * kSegment);
  uint64_t sequence = 0;
  for (unsigned segment = 0; segment < kJournalSegments; ++segment) {
    for (uint64_t at = 0; at < kSegment; at += 2 * kJournalBlock) {
      ASSERT_TRUE(space.HasRoom(2 * kJournalBlock));
      EXPECT_EQ(space.Take(2 * kJournalBlock, ++sequence, kNow),
                kJournalSegmentsBegin + segment * kSegment + at);
      EXPECT_EQ(space.full_since_ns() != 0, segment > 0);
    }
  }
  EXPECT_EQ(space.used_bytes(), space.total_bytes());
  EXPECT_FALSE(space.HasRoom(kJournalBlock));
  space.FreeBelow(2);
  EXPECT_FALSE(space.HasRoom(kJournalBlock));  // the second group is in the first segment too
  space.FreeBelow(3);
  ASSERT_TRUE(space.HasRoom(kJournalBlock));
  EXPECT_EQ(space.Take(kJournalBlock, ++sequence, kNow), kJournalSegmentsBegin);
  EXPECT_NE(space.full_since_ns(), 0u);
}

TEST(JournalSpaceTest, TheSegmentInUseGoesOnWhereItIs) {
  JournalSpace space(kSegment);
  EXPECT_EQ(space.Take(kJournalBlock, 1, 10 + 1), kJournalSegmentsBegin);
  space.FreeBelow(100);
  EXPECT_EQ(space.used_bytes(), kJournalBlock);
  EXPECT_EQ(space.Take(kJournalBlock, 2, 10 + 2), kJournalSegmentsBegin + kJournalBlock);
  // A group that does not fit begins the next segment; the rest of this one stays empty.
  EXPECT_EQ(space.Take(3 * kJournalBlock, 3, 10 + 3), kJournalSegmentsBegin + kSegment);
  EXPECT_NE(space.full_since_ns(), 0u);
  space.FreeBelow(3);
  EXPECT_EQ(space.full_since_ns(), 0u);
  EXPECT_EQ(space.used_bytes(), 3 * kJournalBlock);
}

TEST(PageSetTest, TellsItsPagesInStretches) {
  PageSet pages(200 * PageSet::kPageBytes);
  EXPECT_EQ(pages.Next(0, 8).pages, 0U);
  for (const uint64_t page : {3, 5, 63, 64, 199, 5}) pages.Add(page);
  EXPECT_EQ(pages.count(), 5U);
  const PageSet::Run two = pages.Next(0, 2);
  EXPECT_EQ(two.begin, 3 * PageSet::kPageBytes);
  EXPECT_EQ(two.bytes, 3 * PageSet::kPageBytes);
  EXPECT_EQ(two.pages, 2U);
  const PageSet::Run rest = pages.Next(6, 8);
  EXPECT_EQ(rest.begin, 63 * PageSet::kPageBytes);
  EXPECT_EQ(rest.bytes, 137 * PageSet::kPageBytes);
  EXPECT_EQ(rest.pages, 3U);
  EXPECT_EQ(pages.Next(200, 8).pages, 0U);
  pages.Clear();
  EXPECT_EQ(pages.count(), 0U);
  EXPECT_EQ(pages.Next(0, 8).pages, 0U);
}

TEST(JournalSpaceTest, TellsSinceWhenTheFirstFullSegmentWaits) {
  JournalSpace space(kSegment);
  space.Take(kSegment, 1, 10);
  EXPECT_EQ(space.full_since_ns(), 0u);
  space.Take(kSegment, 2, 20);
  EXPECT_EQ(space.full_since_ns(), 20u);
  space.Take(kSegment, 3, 30);
  EXPECT_EQ(space.full_since_ns(), 20u);
  space.FreeBelow(2);
  EXPECT_EQ(space.full_since_ns(), 30u);
  space.FreeBelow(3);
  EXPECT_EQ(space.full_since_ns(), 0u);
}

}  // namespace
}  // namespace lodgekv::pmem
