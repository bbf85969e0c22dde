// Leaves: splits, creation and removal, and how recovery finds them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "index/lbtree/lbtree_test_util.h"

namespace lodgekv::lbtree {
namespace {

// Lines that were stored to and are not durable.
class UndurableLines final : public pmem::Tracer {
 public:
  void OnStore(const void* dst, size_t bytes, bool) override {
    const auto begin = reinterpret_cast<uintptr_t>(dst);
    const uintptr_t last = (begin + bytes - 1) / pmem::kLineBytes;
    for (uintptr_t at = begin / pmem::kLineBytes; at <= last; ++at) stored_.insert(at);
  }
  void OnFlush(const void* line) override {
    const uintptr_t at = reinterpret_cast<uintptr_t>(line) / pmem::kLineBytes;
    if (stored_.erase(at) != 0) flushed_.insert(at);
  }
  void OnFence() override { flushed_.clear(); }
  void OnCrashPoint(std::string_view name) override { unlinked |= name == "lbtree.recovery.1"; }
  bool OnCanary(std::string_view) override { return false; }

  size_t count() const { return stored_.size() + flushed_.size(); }
  bool unlinked = false;

 private:
  std::set<uintptr_t> stored_;
  std::set<uintptr_t> flushed_;
};

class LeafTest : public ::testing::TestWithParam<unsigned> {
 protected:
  LeafTest() : tree_(KeyFormat::kFixed64, {{"leaf_blocks", std::to_string(GetParam())}}) {}
  unsigned capacity() const { return GetParam() * kBlockSlots; }

  void Put(uint64_t key) {
    ASSERT_EQ(tree_.Put(Text(key), Text(~key)), Outcome::kOk);
    expected_[key] = ~key;
  }
  void Delete(uint64_t key) {
    ASSERT_EQ(tree_.Delete(Text(key)), Outcome::kOk);
    expected_.erase(key);
  }
  void ExpectKeys() {
    tree_.ExpectSound();
    EXPECT_EQ(tree_.engine().CountKeys(), expected_.size());
    auto at = expected_.begin();
    const auto visit = [&](const ScanItem& item) {
      EXPECT_NE(at, expected_.end());
      if (at == expected_.end()) return false;
      EXPECT_EQ(item.key, Text(at->first));
      EXPECT_EQ(item.value, Text(at->second));
      ++at;
      return true;
    };
    EXPECT_EQ(tree_.engine().Scan({}, visit), Outcome::kOk);
    EXPECT_EQ(at, expected_.end());
    for (const auto& [key, value] : expected_) ASSERT_EQ(tree_.Get(Text(key)), Text(value));
  }

  TestTree tree_;
  std::map<uint64_t, uint64_t> expected_;
};

TEST_P(LeafTest, ASplitPacksTheNewLeafFromTheEndOfEachBlock) {
  for (uint64_t i = 0; i < capacity() + 1; ++i) Put(i);
  const auto leaves = tree_.Leaves();
  ASSERT_EQ(leaves.size(), 2u);
  EXPECT_EQ(tree_.PairsOf(leaves[0]), capacity() / 2);
  EXPECT_EQ(tree_.PairsOf(leaves[1]), capacity() / 2 + 1);
  for (unsigned b = 0; b < GetParam(); ++b) {
    const uint32_t slots = TestTree::SlotsOf(leaves[1], b);
    EXPECT_EQ(slots & SlotsOfLine(0), 0u) << "room beside the header of block " << b;
    EXPECT_NE(slots & SlotsOfLine(3), 0u);
  }
  EXPECT_TRUE(AltOf(leaves[0]));
  EXPECT_FALSE(AltOf(leaves[1]));
  ExpectKeys();
}

TEST_P(LeafTest, ALeafSplitsAgainAndAgainWithEitherHeader) {
  std::mt19937_64 random(GetParam());
  for (int i = 0; i < 3000; ++i) {
    const uint64_t key = random() % 100000;
    if (random() % 4 == 0 && !expected_.empty()) {
      Delete(expected_.lower_bound(key) == expected_.end() ? expected_.begin()->first
                                                           : expected_.lower_bound(key)->first);
    } else {
      Put(key);
    }
    if (i % 500 == 499) tree_.KillAndRecover();
    if (i % 250 == 249) ExpectKeys();
  }
}

TEST_P(LeafTest, AnEmptiedRangeGivesItsLeavesBackAndTheyAreUsedAgain) {
  const uint64_t keys = 100 * capacity();
  for (uint64_t i = 0; i < keys; ++i) Put(i);
  const size_t leaves = tree_.Leaves().size();
  for (uint64_t i = keys / 10; i < keys * 9 / 10; ++i) Delete(i);
  EXPECT_LT(tree_.Leaves().size(), leaves / 3);
  ExpectKeys();
  for (uint64_t i = keys / 10; i < keys * 9 / 10; ++i) Put(i);
  EXPECT_LE(tree_.Leaves().size(), leaves);
  EXPECT_EQ(tree_.engine().GetMemoryUse().medium_bytes,
            tree_.Leaves().size() * GetParam() * pmem::kBlockBytes);
  ExpectKeys();
}

TEST_P(LeafTest, RecoveryUnlinksEmptyLeavesButTheFirst) {
  const uint64_t keys = 60 * capacity();
  TestTree tree(KeyFormat::kFixed64,
                {{"leaf_blocks", std::to_string(GetParam())}, {"unlink_leaves", "0"}});
  for (uint64_t i = 0; i < keys; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  const size_t leaves = tree.Leaves().size();
  for (uint64_t i = 0; i < keys; ++i) ASSERT_EQ(tree.Delete(Text(i)), Outcome::kOk);
  EXPECT_EQ(tree.Leaves().size(), leaves);
  tree.KillAndRecover();
  EXPECT_EQ(tree.Leaves().size(), 1u);
  tree.ExpectSound();
  for (uint64_t i = 0; i < keys; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  EXPECT_EQ(tree.engine().CountKeys(), keys);
  tree.ExpectSound();
}

// Behind a crash settling flushes all leaves before a free one is used; in a pool that was closed
// in order nothing is settled.
TEST_P(LeafTest, RecoveryUnlinksEmptyLeavesOfACleanPoolDurably) {
  TestTree tree(KeyFormat::kFixed64,
                {{"leaf_blocks", std::to_string(GetParam())}, {"unlink_leaves", "0"}});
  const uint64_t keys = 10 * capacity();
  for (uint64_t i = 0; i < keys; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  for (uint64_t i = keys / 4; i < keys / 2; ++i) ASSERT_EQ(tree.Delete(Text(i)), Outcome::kOk);
  const size_t leaves = tree.Leaves().size();
  UndurableLines lines;
  tree.arena().options().tracer = &lines;
  tree.CloseAndRecover();
  EXPECT_TRUE(lines.unlinked);
  EXPECT_LT(tree.Leaves().size(), leaves);
  EXPECT_EQ(lines.count(), 0u);
  tree.ExpectSound();
  tree.arena().options().tracer = nullptr;
  tree.KillAndRecover();  // before the tracer goes
}

// Recovery starts from free leaves too: their stale sibling words refer to any leaf, or to none.
TEST_P(LeafTest, RecoveryIsRightWhateverFreeLeavesHold) {
  std::mt19937_64 random(GetParam());
  for (uint64_t i = 0; i < 200 * capacity(); ++i) Put(i * 7919 % 1000003);
  std::vector<pmem::Offset> all;
  for (const media::Block* leaf : tree_.Leaves()) all.push_back(tree_.pool().OffsetOf(leaf));
  std::vector<uint64_t> gone;
  for (const auto& [key, value] : expected_) {
    if (key < 300000 || (key < 500000 && key % 10 < 9)) gone.push_back(key);
  }
  for (const uint64_t key : gone) Delete(key);
  for (int round = 0; round < 20; ++round) {
    std::set<pmem::Offset> used;
    for (const media::Block* leaf : tree_.Leaves()) used.insert(tree_.pool().OffsetOf(leaf));
    size_t scribbled = 0;
    for (const pmem::Offset leaf : all) {
      if (used.contains(leaf)) continue;
      for (pmem::Word& word : tree_.pool().At<media::Block>(leaf)[0].tail) {
        const uint64_t offset =
            random() % 8 == 0 ? random() % (64 << 20) : all[random() % all.size()];
        tree_.pool().medium().Store(word, random() % 16 == 0 ? random() : CheckedWord(offset));
      }
      ++scribbled;
    }
    ASSERT_GT(scribbled, all.size() / 5);
    tree_.KillAndRecover(/*threads=*/round % 4 + 1);
    ExpectKeys();
  }
}

TEST_P(LeafTest, APoolWithMoreSlotsThanAskedForIsRefused) {
  for (uint64_t i = 0; i < 40 * capacity(); ++i) Put(Scattered(i).size() + i * 31);
  const absl::Status status = tree_.RecoverError({{"leaf_slots", "6"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("leaf_slots is 6"), std::string::npos) << status;
}

// While a scan is inside one inner node, the next ones are emptied and removed, and keys are put in
// their place: into leaves that cover more than the scan knows.
TEST_P(LeafTest, AScanGoesOnInOrderWhileInnerNodesGo) {
  std::mt19937_64 random(GetParam());
  const uint64_t keys = 200 * capacity();
  for (int round = 0; round < 150; ++round) {
    for (uint64_t i = 0; i < keys; ++i) Put(16 * i);
    const bool reverse = round % 2 == 1;
    const uint64_t change_at = 16 * (random() % keys);
    const uint64_t end = 16 * keys;
    uint64_t visited = 0;
    std::string last;
    const auto visit = [&](const ScanItem& item) {
      const std::string key(item.key);
      EXPECT_TRUE(last.empty() || (reverse ? key < last : key > last)) << visited;
      EXPECT_LT(key, Text(end));
      last = key;
      if (KeyWord(key, 0) != change_at) return ++visited, true;
      // The scan's own inner node is unchanged if the range begins after it.
      const uint64_t ahead = 16 * (random() % (30 * capacity()));
      const uint64_t width = 16 * 60 * uint64_t{capacity()};
      const uint64_t from =
          !reverse ? change_at + 16 + ahead : change_at - std::min(change_at, ahead + width);
      const uint64_t to = !reverse ? from + width : change_at - std::min(change_at, ahead);
      const auto begin = expected_.lower_bound(from);
      std::vector<uint64_t> gone;
      for (auto at = begin; at != expected_.end() && at->first < to; ++at)
        gone.push_back(at->first);
      for (const uint64_t k : gone) Delete(k);
      for (int i = 0; i < 2; ++i) Put(from + random() % (to - from + 1));
      return true;
    };
    const std::string text = Text(end);
    EXPECT_EQ(tree_.engine().Scan({.end = text, .reverse = reverse}, visit), Outcome::kOk);
    if (HasFailure()) return;
  }
  ExpectKeys();
}

INSTANTIATE_TEST_SUITE_P(Blocks, LeafTest, ::testing::Range(1u, kMaxBlocks + 1));

}  // namespace
}  // namespace lodgekv::lbtree
