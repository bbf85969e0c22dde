// A new backup of the top layer from the one before and the changes since.
#include "index/sptree/backup_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace lodgekv::sptree {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

// Leaf n has the low fence 100: that leaves are in order does not follow from their words.
TopBackup::Entry EntryOf(pmem::Offset leaf) { return {100, leaf}; }

std::vector<pmem::Offset> Updated(const std::vector<pmem::Offset>& old,
                                  const std::vector<std::pair<pmem::Offset, pmem::Offset>>& splits,
                                  const std::vector<pmem::Offset>& dropped) {
  TopBackup::Changes changes{.whole = true, .splits = {}, .dropped = dropped};
  for (const auto& [from, leaf] : splits) changes.splits.push_back({EntryOf(leaf), from});
  BackupUpdate update(std::move(changes));
  std::vector<TopBackup::Entry> entries;
  for (const pmem::Offset leaf : old) update.Append(EntryOf(leaf), &entries);
  std::vector<pmem::Offset> leaves;
  for (const TopBackup::Entry& entry : entries) leaves.push_back(entry.leaf);
  return leaves;
}

TEST(BackupUpdateTest, WhatHasNotChangedStays) {
  EXPECT_THAT(Updated({1, 2, 3}, {}, {}), ElementsAre(1, 2, 3));
  EXPECT_THAT(Updated({}, {{1, 2}}, {3}), IsEmpty());
}

TEST(BackupUpdateTest, ALeafComesRightAfterTheOneThatItWasSplitFrom) {
  EXPECT_THAT(Updated({1, 2, 3}, {{2, 9}, {3, 8}}, {}), ElementsAre(1, 2, 9, 3, 8));
  // The second one from the same leaf is nearer to it.
  EXPECT_THAT(Updated({1, 2}, {{1, 9}, {1, 8}}, {}), ElementsAre(1, 8, 9, 2));
  // From one that was split off itself.
  EXPECT_THAT(Updated({1, 2}, {{1, 9}, {9, 8}, {1, 7}, {7, 6}}, {}), ElementsAre(1, 7, 6, 9, 8, 2));
}

TEST(BackupUpdateTest, ADroppedLeafIsLeftOutAndWhatWasSplitOffFromItIsNot) {
  EXPECT_THAT(Updated({1, 2, 3}, {}, {2}), ElementsAre(1, 3));
  EXPECT_THAT(Updated({1, 2, 3}, {{2, 9}}, {2}), ElementsAre(1, 9, 3));
  EXPECT_THAT(Updated({1, 2}, {{1, 9}, {9, 8}}, {9}), ElementsAre(1, 8, 2));
  EXPECT_THAT(Updated({1, 2}, {{1, 9}}, {9}), ElementsAre(1, 2));
}

// Beside a list that is changed in place.
TEST(BackupUpdateTest, IsWhatTheLeavesHaveBecome) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<pmem::Offset> leaves = {1, 2, 3, 4, 5};
    const std::vector<pmem::Offset> old = leaves;
    std::vector<std::pair<pmem::Offset, pmem::Offset>> splits;
    std::vector<pmem::Offset> dropped;
    for (pmem::Offset next = 6; next < 60; ++next) {
      const size_t at = random() % leaves.size();
      if (at > 0 && random() % 3 == 0) {
        dropped.push_back(leaves[at]);
        leaves.erase(leaves.begin() + static_cast<ptrdiff_t>(at));
      } else {
        splits.emplace_back(leaves[at], next);
        leaves.insert(leaves.begin() + static_cast<ptrdiff_t>(at) + 1, next);
      }
    }
    ASSERT_THAT(Updated(old, splits, dropped), ElementsAreArray(leaves));
  }
}

}  // namespace
}  // namespace lodgekv::sptree
