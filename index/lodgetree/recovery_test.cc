// Recovery: on several threads, with any content of free leaves, and the state that splits need
// afterwards.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

class RecoveryTest : public ::testing::TestWithParam<KeyFormat> {
 protected:
  // Small nodes: so there are many, and leaves split, merge and buffer at any size.
  RecoveryTest() : tree_(GetParam(), {{"node_slots", "8"}, {"leaf_slots", "6"}}) {}

  void Put(const std::string& key, const std::string& value) {
    ASSERT_EQ(tree_.Put(key, value), Outcome::kOk);
    expected_[key] = value;
  }
  // Some keys are put repeatedly: several logs contain old entries of them.
  void Fill(uint64_t puts, uint64_t keys) {
    for (uint64_t i = 0; i < puts; ++i) {
      const uint64_t key = random_() % 4 == 0 ? random_() % 50 : random_() % keys;
      Put(Scattered(key), Text(i));
    }
  }
  void Delete(const std::string& key) {
    ASSERT_EQ(tree_.Delete(key), Outcome::kOk);
    expected_.erase(key);
  }
  void ExpectAll() {
    tree_.ExpectSound();
    EXPECT_EQ(tree_.engine().CountKeys(), expected_.size());
    EXPECT_EQ(tree_.recovery().keys, expected_.size());
    auto at = expected_.begin();
    const auto visit = [&](const ScanItem& item) {
      if (at == expected_.end() || item.key != at->first || item.value != at->second) return false;
      ++at;
      return true;
    };
    EXPECT_EQ(tree_.engine().Scan({}, visit), Outcome::kOk);
    EXPECT_EQ(at, expected_.end()) << "at " << ::testing::PrintToString(at->first);
    for (const auto& [key, value] : expected_) ASSERT_EQ(tree_.Get(key), value);
  }

  TestTree tree_;
  std::mt19937_64 random_{7};
  std::map<std::string, std::string> expected_;
};

// Each thread replays a part, and the resulting tree is the one that a single thread builds.
TEST_P(RecoveryTest, ReplaysOnAllThreadsAndToTheSameTree) {
  Fill(60'000, 30'000);
  std::map<std::string, uint64_t, std::less<>> alone;
  size_t leaves_alone = 0;
  for (const unsigned threads : {1u, 2u, 3u, 5u}) {
    SCOPED_TRACE(threads);
    tree_.KillAndRecover(threads);
    EXPECT_EQ(tree_.recovery().threads, threads);
    EXPECT_EQ(tree_.recovery().replay_threads, threads);
    EXPECT_GT(tree_.recovery().log_entries_replayed, 1000u);
    ExpectAll();
    // Those of the chain: until the rest of recovery is done, leaves count that nobody owns.
    const size_t leaves = tree_.Leaves().size();
    const auto counters = tree_.Counters();
    if (threads == 1) {
      leaves_alone = leaves;
      alone = counters;
    }
    EXPECT_EQ(leaves, leaves_alone);
    for (const char* name : {"last_level_nodes", "inner_nodes", "log_live_bytes"}) {
      EXPECT_EQ(counters.at(name), alone.at(name)) << name;
    }
  }
}

TEST_P(RecoveryTest, SeveralThreadsGoOnWithWhatWasWrittenBetween) {
  for (const unsigned threads : {2u, 1u, 4u, 2u}) {
    Fill(5'000, 3'000);
    for (int i = 0; i < 500; ++i) {
      const auto at = expected_.lower_bound(Text(random_()));
      if (at != expected_.end()) Delete(std::string(at->first));
    }
    tree_.KillAndRecover(threads);
    ExpectAll();
  }
}

// Recovery starts walks at free leaves too: with stale pointers, pointers to any leaf, or none.
TEST_P(RecoveryTest, FreeLeavesMayHoldAnything) {
  Fill(20'000, 10'000);
  std::vector<pmem::Offset> all;
  for (const media::Leaf* leaf : tree_.Leaves()) all.push_back(tree_.pool().OffsetOf(leaf));
  std::vector<std::string> keys;
  for (const auto& [key, value] : expected_) keys.push_back(key);
  for (size_t i = 0; i < keys.size() * 9 / 10; ++i) Delete(keys[i]);
  for (unsigned round = 0; round < 20; ++round) {
    std::set<pmem::Offset> used;
    for (const media::Leaf* leaf : tree_.Leaves()) used.insert(tree_.pool().OffsetOf(leaf));
    size_t scribbled = 0;
    for (const pmem::Offset offset : all) {
      // Chunks that were returned to the pool may contain records by now.
      if (used.contains(offset) || tree_.pool().FindChunk(offset).use != pmem::ChunkUse::kNodes) {
        continue;
      }
      for (pmem::Word& word : tree_.pool().At<media::Leaf>(offset)->next) {
        const uint64_t next =
            random_() % 8 == 0 ? random_() % (64 << 20) : all[random_() % all.size()];
        tree_.pool().medium().Store(word, random_() % 16 == 0 ? random_() : CheckedWord(next));
      }
      ++scribbled;
    }
    ASSERT_GT(scribbled, all.size() / 4);
    tree_.KillAndRecover(/*threads=*/round % 4 + 1);
    ASSERT_EQ(tree_.recovery().leaves_scanned, used.size());
    ExpectAll();
  }
}

// After a clean close there is nothing to replay, however many threads have drained the buffers.
TEST_P(RecoveryTest, CloseEmptiesAllBuffersOnAnyNumberOfThreads) {
  for (const unsigned threads : {1u, 2u, 5u}) {
    tree_.KillAndRecover(threads);
    Fill(10'000, 20'000);
    ASSERT_TRUE(tree_.engine().Close().ok());
    tree_.KillAndRecover(threads);
    EXPECT_EQ(tree_.recovery().log_entries_replayed, 0u);
    ExpectAll();
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, RecoveryTest,
                         ::testing::Values(KeyFormat::kFixed64, KeyFormat::kBytes),
                         [](const auto& format) {
                           return format.param == KeyFormat::kBytes ? "Bytes" : "Fixed64";
                         });

// What uniform inserts do to a tree: splits that judge the node hot, nodes, DRAM.
struct Growth {
  uint64_t adding_splits;
  uint64_t nodes;
  double dram_bytes;
};

Growth GrowBy(TestTree& tree, uint64_t first, uint64_t keys) {
  const Effect effect = tree.EffectOf([&] {
    for (uint64_t i = first; i < first + keys; ++i) {
      ASSERT_EQ(tree.Put(Scattered(i), Text(i)), Outcome::kOk);
    }
  });
  return {effect["adding_splits_total"], tree.Counters()["last_level_nodes"],
          static_cast<double>(tree.engine().GetMemoryUse().dram_bytes)};
}

// A node that recovery has built has had no split that a later one could be compared with: its
// first interval begins then, not with the pool.
TEST(RecoveryHotnessTest, UniformInsertsMakeNoMoreNodesBehindARestart) {
  constexpr uint64_t kKeys = 150'000;
  TestTree through(KeyFormat::kFixed64);
  TestTree reopened(KeyFormat::kFixed64);
  GrowBy(through, 0, kKeys);
  GrowBy(reopened, 0, kKeys);
  reopened.KillAndRecover(2);
  const Growth expected = GrowBy(through, kKeys, 5 * kKeys);
  const Growth found = GrowBy(reopened, kKeys, 5 * kKeys);
  std::printf("adding splits %llu and %llu, nodes %llu and %llu, DRAM %.0f and %.0f\n",
              static_cast<unsigned long long>(expected.adding_splits),
              static_cast<unsigned long long>(found.adding_splits),
              static_cast<unsigned long long>(expected.nodes),
              static_cast<unsigned long long>(found.nodes), expected.dram_bytes, found.dram_bytes);
  EXPECT_LE(found.adding_splits, expected.adding_splits + expected.nodes / 50);
  EXPECT_LT(static_cast<double>(found.nodes), 1.05 * static_cast<double>(expected.nodes));
  EXPECT_LT(found.dram_bytes, 1.05 * expected.dram_bytes);
}

}  // namespace
}  // namespace lodgekv::lodgetree
