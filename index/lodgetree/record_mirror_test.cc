// Records mirrored in DRAM: reads of `bytes` keys do not touch leaves, whatever has changed them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

constexpr uint64_t kKeys = 3000;
const TestTree::Options kMirrored = {{"mirror_records", "1"}};

std::string KeyOf(uint64_t n) { return Scattered(n) + " and more"; }

// Every slot is overwritten by what is no pair.
void SpoilSlots(TestTree& tree) {
  pmem::Medium& medium = tree.pool().medium();
  for (const media::Leaf* leaf : tree.Leaves()) {
    for (media::Slot& slot : tree.pool().At<media::Leaf>(tree.pool().OffsetOf(leaf))->slots) {
      medium.StoreTwo(slot.key, ~uint64_t{0}, slot.value, 0);
    }
  }
}

class RecordMirrorTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kNone = UINT64_MAX;  // a key that was deleted

  void Put(TestTree& tree, uint64_t n, uint64_t value) {
    ASSERT_EQ(tree.Put(KeyOf(n), Text(value)), Outcome::kOk);
    expected_[n] = value;
  }
  void Delete(TestTree& tree, uint64_t n) {
    ASSERT_EQ(tree.Delete(KeyOf(n)), Outcome::kOk);
    expected_[n] = kNone;
  }
  // Reads of one key and of several.
  uint64_t FoundAlone(TestTree& tree) {
    return static_cast<uint64_t>(std::ranges::count_if(expected_, [&](const auto& pair) {
      return tree.Get(KeyOf(pair.first)) == TextOf(pair.second);
    }));
  }
  uint64_t FoundTogether(TestTree& tree) {
    std::vector<std::string> keys;
    for (const auto& [n, value] : expected_) keys.push_back(KeyOf(n));
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<ReadResult> results(keys.size());
    EXPECT_EQ(tree.engine().Read(views, results, {}), Outcome::kOk);
    auto result = results.begin();
    return static_cast<uint64_t>(std::ranges::count_if(expected_, [&](const auto& pair) {
      const ReadResult& read = *result++;
      return (read.found ? read.value : "none") == TextOf(pair.second);
    }));
  }
  void ExpectAllWithoutSlots(TestTree& tree) {
    tree.ExpectSound();
    SpoilSlots(tree);
    EXPECT_EQ(FoundAlone(tree), expected_.size());
    EXPECT_EQ(FoundTogether(tree), expected_.size());
  }

 private:
  static std::string TextOf(uint64_t value) { return value == kNone ? "none" : Text(value); }

  std::map<uint64_t, uint64_t> expected_;
};

TEST_F(RecordMirrorTest, AReadNeverTouchesASlot) {
  TestTree tree(KeyFormat::kBytes, kMirrored);
  for (uint64_t n = 0; n < kKeys; ++n) Put(tree, n, n);
  ExpectAllWithoutSlots(tree);
}

TEST_F(RecordMirrorTest, WithoutItReadsTheSlots) {
  TestTree tree(KeyFormat::kBytes);
  for (uint64_t n = 0; n < kKeys; ++n) Put(tree, n, n);
  tree.ExpectSound();
  EXPECT_EQ(FoundAlone(tree), kKeys);
  EXPECT_EQ(FoundTogether(tree), kKeys);
  SpoilSlots(tree);
  // What is buffered needs no slot.
  EXPECT_LT(FoundAlone(tree), kKeys / 2);
  EXPECT_LT(FoundTogether(tree), kKeys / 2);
}

TEST_F(RecordMirrorTest, FollowsUpdatesInPlace) {
  TestTree tree(KeyFormat::kBytes, kMirrored);
  for (uint64_t n = 0; n < 3 * kKeys; ++n) Put(tree, n % kKeys, n);
  ExpectAllWithoutSlots(tree);
}

TEST_F(RecordMirrorTest, FollowsGroupsWithSecondCommits) {
  TestTree tree(KeyFormat::kBytes, kMirrored);
  for (uint64_t n = 0; n < kKeys; ++n) Put(tree, n, n);
  std::vector<std::string> keys;
  for (uint64_t n = 0; n < kKeys; ++n) keys.push_back(KeyOf(n));
  std::ranges::sort(keys);
  const std::string value = Text(7);
  for (size_t begin = 0; begin < keys.size(); begin += 60) {
    std::vector<WriteOp> ops;
    for (size_t i = begin; i < begin + 60; ++i) ops.push_back({.key = keys[i], .value = value});
    ASSERT_EQ(tree.Write(ops), Outcome::kOk);
  }
  EXPECT_GT(tree.Counters()["second_commits_total"], 0u);
  tree.ExpectSound();
  SpoilSlots(tree);
  for (const std::string& key : keys) ASSERT_EQ(tree.Get(key), value);
}

TEST_F(RecordMirrorTest, FollowsMergesOfLeavesAndNodes) {
  TestTree tree(KeyFormat::kBytes, kMirrored);
  for (uint64_t n = 0; n < kKeys; ++n) Put(tree, n, n);
  const uint64_t nodes = tree.Counters()["last_level_nodes"];
  for (uint64_t n = 0; n < kKeys; ++n) {
    if (n % 64 != 0) Delete(tree, n);
  }
  EXPECT_GT(tree.Counters()["merged_leaves_total"], 10u);
  EXPECT_LT(tree.Counters()["last_level_nodes"], nodes);
  for (uint64_t n = 0; n < kKeys; n += 16) Put(tree, n, n + 1);
  ExpectAllWithoutSlots(tree);
}

TEST_F(RecordMirrorTest, IsBuiltByRecovery) {
  TestTree tree(KeyFormat::kBytes, kMirrored);
  for (uint64_t n = 0; n < kKeys; ++n) Put(tree, n, n);
  tree.KillAndRecover(2);
  ASSERT_NO_FATAL_FAILURE();
  for (uint64_t n = 0; n < kKeys; n += 3) Put(tree, n, n + 1);
  tree.CloseAndRecover();
  ExpectAllWithoutSlots(tree);
}

// The slot decides between keys of one hash.
TEST_F(RecordMirrorTest, TellsKeysOfOneHashApart) {
  TestTree tree(KeyFormat::kBytes, kMirrored);
  const std::string key = "a key";
  std::vector<std::string> same;
  for (uint64_t n = 0; same.size() < 3; ++n) {
    std::string other = "a key " + std::to_string(n);
    if (SlotHash(other) == SlotHash(key)) same.push_back(std::move(other));
  }
  ASSERT_EQ(tree.Put(key, "1"), Outcome::kOk);
  ASSERT_EQ(tree.Put(same[0], "2"), Outcome::kOk);
  ASSERT_EQ(tree.Put(same[1], "3"), Outcome::kOk);
  ASSERT_TRUE(tree.engine().Close().ok());  // drains them to their leaf
  ASSERT_EQ(tree.LeafFill(), std::vector<unsigned>{3});
  EXPECT_EQ(tree.Get(key), "1");
  EXPECT_EQ(tree.Get(same[0]), "2");
  EXPECT_EQ(tree.Get(same[1]), "3");
  EXPECT_EQ(tree.Get(same[2]), "none");
}

TEST_F(RecordMirrorTest, CheckFindsARecordThatIsNotTheMirrors) {
  TestTree tree(KeyFormat::kBytes, kMirrored);
  for (uint64_t n = 0; n < 100; ++n) Put(tree, n, n);
  ASSERT_TRUE(tree.engine().Close().ok());
  auto* leaf = const_cast<media::Leaf*>(tree.Leaves().front());
  ASSERT_GE(tree.LeafFill().front(), 2u);
  const auto first = static_cast<unsigned>(std::countr_zero(leaf->commit.Load()));
  const Pair pair = SlotPair(leaf, first);
  // The same key, hash and parity: two bits of the record's number differ.
  tree.pool().medium().Store(leaf->slots[first].value, pair.value ^ uint64_t{3} << 17);
  const CheckReport report = tree.engine().Check();
  EXPECT_TRUE(std::ranges::any_of(report.problems, [](const std::string& problem) {
    return problem.ends_with("its record and the mirror's differ");
  }));
  tree.pool().medium().Store(leaf->slots[first].value, pair.value);
  tree.ExpectSound();
}

TEST_F(RecordMirrorTest, TakesOneMirrorForEachNode) {
  TestTree with(KeyFormat::kBytes, kMirrored);
  TestTree without(KeyFormat::kBytes);
  TestTree inline_pairs(KeyFormat::kBytes, kMirrored, true);
  for (TestTree* tree : {&with, &without, &inline_pairs}) {
    for (uint64_t n = 0; n < kKeys; ++n) Put(*tree, n, n);
  }
  const uint64_t nodes = with.Counters()["last_level_nodes"];
  const uint64_t bytes = without.engine().GetMemoryUse().dram_bytes;
  EXPECT_GT(nodes, 5u);
  EXPECT_EQ(with.engine().GetMemoryUse().dram_bytes, bytes + nodes * sizeof(RecordMirror));
  EXPECT_EQ(inline_pairs.engine().GetMemoryUse().dram_bytes, bytes);
}

TEST(RecordWordFormTest, HasNumbersAndHashBitsOfPoolsUpToSixteenTebibytes) {
  for (unsigned shift = 26; shift <= 44; ++shift) {
    const uint64_t pool_bytes = uint64_t{1} << shift;
    const RecordWordForm form(pool_bytes);
    ASSERT_TRUE(form.FitsPool()) << shift;
    const unsigned hash_bits = std::min(8u, 44 - shift);
    for (const pmem::Offset record : {pmem::Offset{16}, pool_bytes / 2 + 48, pool_bytes - 16}) {
      const uint16_t hash = 0x5A01;
      const uint64_t word = form.WordOf(record, hash);
      EXPECT_EQ(word >> RecordWordForm::kBits, 0u);
      EXPECT_EQ(form.RecordOf(word), record);
      EXPECT_TRUE(form.MayHave(word, hash));
      // The low byte is the fingerprint's.
      EXPECT_TRUE(form.MayHave(word, hash ^ 1));
      for (unsigned bit = 8; bit < 16; ++bit) {
        EXPECT_EQ(form.MayHave(word, static_cast<uint16_t>(hash ^ 1u << bit)), bit < 16 - hash_bits)
            << shift;
      }
    }
  }
  EXPECT_FALSE(RecordWordForm((uint64_t{1} << 44) + 16).FitsPool());
}

}  // namespace
}  // namespace lodgekv::lodgetree
