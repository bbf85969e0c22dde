// A start that touches no leaf (first_touch.h): by the backup of the top layer (top_backup.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "index/pmem/testing/silent_tracer.h"
#include "index/sptree/sptree_test_util.h"

namespace lodgekv::sptree {
namespace {

constexpr uint64_t kKeys = 40'000;

class AtOnceTest : public ::testing::TestWithParam<KeyFormat> {
 protected:
  // Keys of `bytes` share their first word, so that the leaves' own fences decide.
  std::string Key(uint64_t i) const {
    return GetParam() == KeyFormat::kBytes ? "a long prefix " + Text(i) : Text(i);
  }
  void SetUp() override {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(tree_.Put(Key(RandomWord(i) % kKeys * 2), Text(7)), Outcome::kOk);
    }
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(tree_.Put(Key(i * 2), Text(i)), Outcome::kOk);
    while (Count("backups_total") == 0) std::this_thread::yield();
    leaves_ = tree_.Leaves().size();
    ASSERT_GT(leaves_, 500u);
  }
  uint64_t Count(std::string_view name) { return tree_.Counters().find(name)->second; }
  // Nothing is done in the background: only what is touched is known.
  void KillAndRecoverInPlace() {
    tree_.arena().options().tracer = &tracer_;
    tree_.KillAndRecover();
    tree_.arena().options().tracer = nullptr;
  }
  void Spoil(pmem::Word& word, uint64_t flipped) {
    tree_.pool().medium().Store(word, word.Load() ^ flipped);
  }

  pmem::SilentTracer tracer_;
  TestTree tree_{GetParam()};
  uint64_t leaves_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Formats, AtOnceTest,
                         ::testing::Values(KeyFormat::kFixed64, KeyFormat::kBytes),
                         [](const auto& test) {
                           return test.param == KeyFormat::kBytes ? "bytes" : "fixed64";
                         });

TEST_P(AtOnceTest, ALookupTouchesItsLeafAlone) {
  KillAndRecoverInPlace();
  EXPECT_EQ(tree_.recovery().leaves_scanned, 0u);
  EXPECT_FALSE(tree_.engine().GetRecoveryState().finished);
  const auto read = [&] { EXPECT_EQ(tree_.Get(Key(kKeys)), Text(kKeys / 2)); };
  // The leaf, and the links that lead there from the backup's.
  const uint64_t lines = tree_.EffectOf(read).cost.lines_flushed;
  EXPECT_GE(lines, sizeof(media::Bnode) / pmem::kLineBytes);
  EXPECT_LT(lines, 100u);
  EXPECT_LE(Count("leaves"), 3u);
  EXPECT_EQ(tree_.EffectOf(read).cost.lines_flushed, 0u);
}

TEST_P(AtOnceTest, EveryKeyIsThereInAnyOrder) {
  KillAndRecoverInPlace();
  for (uint64_t i = 0; i < kKeys; ++i) {
    const uint64_t key = RandomWord(i) % kKeys;
    ASSERT_EQ(tree_.Get(Key(key * 2)), Text(key));
    ASSERT_EQ(tree_.Get(Key(key * 2 + 1)), "none");
  }
  tree_.ExpectSound();
  EXPECT_EQ(tree_.engine().CountKeys(), kKeys);
  tree_.KillAndRecover();  // with a sweep
  (void)tree_.engine().Close();
  EXPECT_EQ(tree_.engine().CountKeys(), kKeys);
}

TEST_P(AtOnceTest, ScansAndWritesGoThroughGaps) {
  for (const bool reverse : {false, true}) {
    KillAndRecoverInPlace();
    ASSERT_EQ(tree_.Get(Key(kKeys)), Text(kKeys / 2));  // between two gaps
    uint64_t seen = 0;
    ScanOptions options;
    options.reverse = reverse;
    (void)tree_.engine().Scan(options, [&](const ScanItem& item) {
      const uint64_t i = reverse ? kKeys - 1 - seen : seen;
      EXPECT_EQ(item.key, Key(i * 2));
      return ++seen > 0;
    });
    EXPECT_EQ(seen, kKeys);
  }
  KillAndRecoverInPlace();
  for (uint64_t i = 0; i < kKeys; i += 3) {
    ASSERT_EQ(tree_.Put(Key(i * 2 + 1), Text(i)), Outcome::kOk);
    ASSERT_EQ(tree_.Delete(Key(i * 2)), Outcome::kOk);
  }
  tree_.ExpectSound();
  EXPECT_EQ(tree_.engine().CountKeys(), kKeys);
}

// Leaves are merged to the left while a walk collects them: the first one comes again.
TEST(BackupListTest, AscendsWhenALeafComesAgain) {
  const auto collected = [](std::vector<TopBackup::Entry> walk) {
    std::vector<TopBackup::Entry> entries;
    for (const TopBackup::Entry& entry : walk) TopBackup::AddAscending(entry, &entries);
    std::vector<std::pair<uint64_t, pmem::Offset>> pairs;
    for (const TopBackup::Entry& entry : entries) pairs.emplace_back(entry.low, entry.leaf);
    return pairs;
  };
  using Pairs = std::vector<std::pair<uint64_t, pmem::Offset>>;
  EXPECT_EQ(collected({{0, 1}, {5, 2}, {9, 3}, {0, 1}, {12, 4}}), (Pairs{{0, 1}, {12, 4}}));
  EXPECT_EQ(collected({{0, 1}, {5, 2}, {5, 3}, {5, 4}}), (Pairs{{0, 1}, {5, 2}, {5, 3}, {5, 4}}));
  EXPECT_EQ(collected({{5, 1}, {5, 2}, {5, 3}, {7, 4}, {5, 2}}), (Pairs{{5, 1}, {5, 2}}));
  // The walk has not come to the leaf that took them over: it was split off meanwhile.
  EXPECT_EQ(collected({{0, 1}, {5, 2}, {9, 3}, {3, 4}}), (Pairs{{0, 1}, {3, 4}}));
}

// Only the first backup is the work of a walk, and Check finds the leaves of each in their order.
TEST_P(AtOnceTest, ABackupIsMadeOfTheOneBefore) {
  EXPECT_EQ(Count("backup_walks_total"), 1u);
  for (uint64_t round = 0; round < 3; ++round) {
    const uint64_t backups = Count("backups_total");
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(tree_.Put(Key(RandomWord(i) % kKeys * 2 + 1), Text(i)), Outcome::kOk);
    }
    while (Count("backups_total") == backups) std::this_thread::yield();
    for (uint64_t i = 0; i < kKeys; ++i) {
      if (i % 16 == round) continue;
      (void)tree_.Delete(Key(i * 2));
      (void)tree_.Delete(Key(i * 2 + 1));
    }
    tree_.ExpectSound();
  }
  EXPECT_EQ(Count("backup_walks_total"), 1u);
}

// What has changed before the start is not known.
TEST_P(AtOnceTest, TheFirstBackupAfterAStartIsMadeByAWalk) {
  tree_.KillAndRecover();
  while (!tree_.engine().GetRecoveryState().finished) std::this_thread::yield();
  ASSERT_EQ(Count("backups_total"), 0u);
  for (uint64_t i = 0; i < kKeys / 2; ++i)
    ASSERT_EQ(tree_.Put(Key(i * 2 + 1), Text(i)), Outcome::kOk);
  while (Count("backups_total") == 0) std::this_thread::yield();
  EXPECT_EQ(Count("backup_walks_total"), 1u);
  tree_.ExpectSound();
}

// The backup names leaves that were merged since: what they held is in the leaf to the left, and
// newer.
TEST_P(AtOnceTest, ADroppedLeafIsNotBelieved) {
  for (uint64_t i = 0; i < kKeys; ++i) {
    if (i % 16 == 0) continue;
    ASSERT_EQ(tree_.Delete(Key(i * 2)), Outcome::kOk);
  }
  ASSERT_GT(Count("leaf_merges_total"), 100u);
  for (uint64_t i = 0; i < kKeys; i += 16) ASSERT_EQ(tree_.Put(Key(i * 2), Text(1)), Outcome::kOk);
  KillAndRecoverInPlace();
  for (uint64_t i = kKeys; i-- > 0;) {
    ASSERT_EQ(tree_.Get(Key(i * 2)), i % 16 == 0 ? Text(1) : "none");
  }
  tree_.ExpectSound();
}

TEST_P(AtOnceTest, ADamagedBackupCostsStepsAlone) {
  KillAndRecoverInPlace();
  pmem::Offset space;
  ASSERT_TRUE(ReadChecked(tree_.pool().engine_area()[media::kBackup].Load(), &space));
  auto* entries = tree_.pool().At<media::BackupEntry>(space + pmem::kBlockBytes);
  for (size_t i = 0; i < 200; ++i) {
    pmem::Word& word = i % 2 == 0 ? entries[i].low : entries[i].leaf;
    Spoil(word, uint64_t{1} << (i % 60));
  }
  for (uint64_t i = 0; i < kKeys; i += 7) ASSERT_EQ(tree_.Get(Key(i * 2)), Text(i));
  // Its header as well: then all leaves are walked.
  Spoil(*tree_.pool().At<pmem::Word>(space), 1);
  tree_.KillAndRecover();
  EXPECT_EQ(tree_.recovery().leaves_scanned, leaves_);
  EXPECT_EQ(Count("backup_lost"), 1u);
  for (uint64_t i = 0; i < kKeys; i += 7) ASSERT_EQ(tree_.Get(Key(i * 2)), Text(i));
}

TEST_P(AtOnceTest, ADamagedLeafIsReportedAndNoOther) {
  media::Bnode* leaf = tree_.Leaves()[leaves_ / 2];
  Spoil(leaf->watermark, 1);
  KillAndRecoverInPlace();
  uint64_t damaged = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const std::string key = Key(i * 2);
    const std::string_view keys[] = {key};
    ReadResult result;
    if (tree_.engine().Read(keys, {&result, 1}, {}) == Outcome::kDataLoss) {
      ++damaged;
      EXPECT_EQ(tree_.Put(key, Text(1)), Outcome::kDataLoss);
    } else {
      EXPECT_EQ(result.value, Text(i));
    }
  }
  EXPECT_GT(damaged, 0u);
  EXPECT_LE(damaged, kBnodeSlots);
}

// The sweep opens leaves together, while two threads come to them as well.
TEST(SweepTest, LeavesNothingBesideReadsAndWrites) {
  for (const KeyFormat format : {KeyFormat::kFixed64, KeyFormat::kBytes}) {
    TestTree tree(format, {{"leaf_slots", "4"}});
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(tree.Put(Text(i * 2), Text(i)), Outcome::kOk);
    ASSERT_GT(tree.Leaves().size(), 8192u);
    while (tree.Counters()["backups_total"] < 2) std::this_thread::yield();
    tree.KillAndRecover();
    EXPECT_EQ(tree.recovery().leaves_scanned, 0u);
    std::thread other([&] {
      for (uint64_t i = 0; i < kKeys; ++i) {
        const uint64_t key = RandomWord(i) % kKeys;
        ASSERT_EQ(tree.Get(Text(key * 2)), Text(key));
      }
    });
    for (uint64_t i = 1; i < kKeys; i += 4) {
      const uint64_t key = kKeys - i;
      ASSERT_EQ(tree.Put(Text(key * 2 + 1), Text(1)), Outcome::kOk);
      ASSERT_EQ(tree.Delete(Text(key * 2 + 1)), Outcome::kOk);
    }
    other.join();
    while (!tree.engine().GetRecoveryState().finished) std::this_thread::yield();
    EXPECT_TRUE(tree.engine().GetRecoveryState().error.ok());
    tree.ExpectSound();
    EXPECT_EQ(tree.engine().CountKeys(), kKeys);
  }
}

}  // namespace
}  // namespace lodgekv::sptree
