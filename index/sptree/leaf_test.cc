// Leaves as splits, merges and recovery leave them on the medium.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "index/sptree/sptree_test_util.h"

namespace lodgekv::sptree {
namespace {

TEST(SplitTest, TheUpperHalfMovesToTheNewLeaf) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < kBnodeSlots; ++i)
    ASSERT_EQ(tree.Put(Text(2 * i), Text(i)), Outcome::kOk);
  ASSERT_EQ(tree.Leaves().size(), 1u);
  ASSERT_EQ(tree.Put(Text(33), Text(1)), Outcome::kOk);
  const auto leaves = tree.Leaves();
  ASSERT_EQ(leaves.size(), 2u);
  EXPECT_EQ(tree.PairsOf(leaves[0]), 32u);
  EXPECT_EQ(tree.PairsOf(leaves[1]), 33u);
  EXPECT_EQ(FenceOf(*leaves[1]).word, tree.KeysOf(leaves[1]).front());
  tree.ExpectSound();
}

TEST(SplitTest, KeysThatAscendLeaveFullLeavesBehind) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < 10 * kBnodeSlots; ++i) {
    ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  }
  EXPECT_EQ(tree.Leaves().size(), 10u);
  tree.ExpectSound();
}

TEST(SplitTest, ALongFenceIsInARecordOfTheLeaf) {
  TestTree tree(KeyFormat::kBytes);
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(tree.Put(absl::StrCat("a/long/prefix/of/all/", 1000 + i), "v"), Outcome::kOk);
  }
  const auto leaves = tree.Leaves();
  ASSERT_GE(leaves.size(), 3u);
  EXPECT_EQ(FenceOf(*leaves[1]).kind(), FenceWords::kRecord);
  tree.KillAndRecover();
  tree.ExpectSound();
  EXPECT_EQ(tree.Get("a/long/prefix/of/all/1123"), "v");
}

TEST(MergeTest, SparseNeighboursBecomeOneLeaf) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < 4 * kBnodeSlots; ++i) {
    ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  }
  ASSERT_EQ(tree.Leaves().size(), 4u);
  for (uint64_t i = 0; i < 4 * kBnodeSlots; ++i) {
    if (i % 16 == 0) continue;
    ASSERT_EQ(tree.Delete(Text(i)), Outcome::kOk);
  }
  EXPECT_EQ(tree.Leaves().size(), 1u);
  EXPECT_EQ(tree.Counters()["leaf_merges_total"], 3u);
  tree.ExpectSound();
  for (uint64_t i = 0; i < 4 * kBnodeSlots; i += 16) EXPECT_EQ(tree.Get(Text(i)), Text(i));
}

TEST(MergeTest, WithoutTheTechniqueLeavesStay) {
  TestTree tree(KeyFormat::kFixed64, {{"merge", "0"}});
  for (uint64_t i = 0; i < 2 * kBnodeSlots; ++i) {
    ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  }
  for (uint64_t i = 0; i < 2 * kBnodeSlots; ++i) ASSERT_EQ(tree.Delete(Text(i)), Outcome::kOk);
  EXPECT_EQ(tree.Leaves().size(), 2u);
}

// All that a tree had is given back with its keys.
TEST(MergeTest, AnEmptiedTreeHasOneLeaf) {
  TestTree tree(KeyFormat::kBytes);
  constexpr uint64_t kKeys = 20'000;
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(tree.Put(absl::StrCat("some/prefix/", RandomWord(i)), "v"), Outcome::kOk);
  }
  EXPECT_GT(tree.Leaves().size(), 300u);
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(tree.Delete(absl::StrCat("some/prefix/", RandomWord(i))), Outcome::kOk);
  }
  EXPECT_EQ(tree.Leaves().size(), 1u);
  tree.ExpectSound();
}

// A split or a merge cut short before its last word: the left leaf has the right one's keys too.
TEST(RecoveryTest, CopiesOutOfALeafsRangeAreRemoved) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i <= kBnodeSlots; ++i) {
    ASSERT_EQ(tree.Put(Text(i * 7 % 65), Text(i)), Outcome::kOk);
  }
  const auto leaves = tree.Leaves();
  ASSERT_EQ(leaves.size(), 2u);
  const uint64_t before = leaves[0]->bitmap.Load();
  ASSERT_NE(before, ~uint64_t{0});
  tree.pool().medium().Store(leaves[0]->bitmap, ~uint64_t{0});
  tree.KillAndRecover();
  EXPECT_EQ(tree.Leaves()[0]->bitmap.Load(), before);
  EXPECT_EQ(tree.recovery().repairs, 1u);
  EXPECT_EQ(tree.recovery().keys, kBnodeSlots + 1u);
  tree.ExpectSound();
}

// What is in no other leaf has not been moved: it is damage.
TEST(RecoveryTest, AStrayKeyIsRefused) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i <= kBnodeSlots; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  const auto leaves = tree.Leaves();
  tree.pool().medium().Store(leaves[0]->slots[3].key, uint64_t{1} << 40);
  const absl::Status status = tree.RecoverError();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("a tag that is not its key's"), std::string::npos) << status;
}

TEST(BulkLoadTest, EveryPairIsThereAndStays) {
  for (const KeyFormat format : {KeyFormat::kFixed64, KeyFormat::kBytes}) {
    BulkLoad load;
    load.source = [n = uint64_t{0}, key = std::string(),
                   value = std::string()](BulkPair* pair) mutable -> absl::StatusOr<bool> {
      if (n == 5000) return false;
      key = Text(2 * n);
      value = Text(~n++);
      *pair = {.key = key, .value = value};
      return true;
    };
    TestTree tree(load, format);
    for (const bool again : {false, true}) {
      if (again) tree.KillAndRecover();
      tree.ExpectSound();
      EXPECT_EQ(tree.engine().CountKeys(), 5000u);
      for (uint64_t n = 0; n < 5000; ++n) ASSERT_EQ(tree.Get(Text(2 * n)), Text(~n));
    }
    for (uint64_t n = 0; n < 5000; ++n) ASSERT_EQ(tree.Put(Text(2 * n + 1), Text(n)), Outcome::kOk);
    tree.ExpectSound();
  }
}

TEST(ScanTest, ALeafIsSortedOnceAfterAChange) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < 50; ++i) ASSERT_EQ(tree.Put(Scattered(i), Text(i)), Outcome::kOk);
  const auto scan = [&] {
    std::string last;
    EXPECT_EQ(tree.engine().Scan({},
                                 [&](const ScanItem& item) {
                                   EXPECT_LT(last, item.key);
                                   last = item.key;
                                   return true;
                                 }),
              Outcome::kOk);
  };
  EXPECT_EQ(tree.EffectOf(scan)["sorted_leaves_total"], 1u);
  EXPECT_EQ(tree.EffectOf(scan)["sorted_leaves_total"], 0u);
  ASSERT_EQ(tree.Put(Scattered(7), Text(1)), Outcome::kOk);  // a value alone moves nothing
  EXPECT_EQ(tree.EffectOf(scan)["sorted_leaves_total"], 0u);
  ASSERT_EQ(tree.Put(Scattered(51), Text(1)), Outcome::kOk);
  EXPECT_EQ(tree.EffectOf(scan)["sorted_leaves_total"], 1u);
  tree.ExpectSound();
}

// A second sort at the same version would take entries away from a scan that reads the first one's.
// For a while: where others are at work, a round can take as long as the scheduler lets them.
TEST(ScanTest, ScansThatMeetALeafTogetherSortItOnce) {
  constexpr unsigned kThreads = 2;
  constexpr auto kWhile = std::chrono::seconds(3);
  constexpr uint64_t kKeys = 50;
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(tree.Put(Scattered(i), Text(i)), Outcome::kOk);
  std::atomic<uint64_t> scanned{0};
  uint64_t rounds = 0;  // changed while all threads wait
  bool ended = false;
  const auto end = std::chrono::steady_clock::now() + kWhile;
  const auto change = [&]() noexcept {
    ended = std::chrono::steady_clock::now() >= end;
    if (ended) return;
    EXPECT_EQ(tree.Delete(Scattered(rounds % kKeys)), Outcome::kOk);
    EXPECT_EQ(tree.Put(Scattered(rounds % kKeys), Text(rounds)), Outcome::kOk);
    ++rounds;
  };
  const auto scan_each_change = [&] {
    std::barrier together(kThreads, change);
    const auto scan = [&] {
      for (together.arrive_and_wait(); !ended; together.arrive_and_wait()) {
        std::string last;
        const Outcome outcome = tree.engine().Scan({}, [&](const ScanItem& item) {
          EXPECT_LT(std::exchange(last, std::string(item.key)), item.key);
          scanned.fetch_add(1, std::memory_order_relaxed);
          return true;
        });
        EXPECT_EQ(outcome, Outcome::kOk);
      }
    };
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(scan);
  };
  const uint64_t sorted = tree.EffectOf(scan_each_change)["sorted_leaves_total"];
  EXPECT_GT(rounds, 0u);
  EXPECT_EQ(sorted, rounds);
  EXPECT_EQ(scanned, rounds * kThreads * kKeys);
  tree.ExpectSound();
}

}  // namespace
}  // namespace lodgekv::sptree
