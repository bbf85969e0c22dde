// Open commits: what they save, and where they are closed. That closing is needed there is what the
// laboratory's canaries show, except where they would take too many images: a node that splits or
// is joined, and a thread that has ended.
#include "index/lodgetree/open_commits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

constexpr uint64_t kKeys = 40'000;

Effect PutScattered(TestTree& tree, uint64_t n) { return tree.PutEffect(Scattered(n), Text(n)); }

// Puts keys from `*n` on until one has set off a flush, whose effect is returned.
Effect PutUntilFlush(TestTree& tree, uint64_t* n) {
  for (;;) {
    const Effect effect = PutScattered(tree, (*n)++);
    if (effect["buffer_flushes_total"] != 0) return effect;
  }
}

// All in one node.
Effect PutNeighboursUntilFlush(TestTree& tree, uint64_t* key) {
  for (;;) {
    const Effect effect = tree.PutEffect(Text(++*key), Text(0));
    if (effect["buffer_flushes_total"] != 0) return effect;
  }
}

enum class Words { kInOrder, kTear };

// On a medium that keeps the order of a line's words, or does not.
class OpenCommitsTest : public ::testing::TestWithParam<Words> {
 protected:
  static bool tear() { return GetParam() == Words::kTear; }
  static void Start(TestTree& tree) {
    tree.arena().options().strict_order = tear();
    tree.arena().options().long_fences = false;
    tree.CloseAndRecover();
  }
  // Puts kKeys keys, and more up to `*n` by a thread that has ended. Returns how many leaves its
  // last flush wrote, whose commits are open.
  static uint64_t StartWithCommitsOfAnEndedThread(TestTree& tree, uint64_t* n) {
    Start(tree);
    for (; *n < kKeys; ++*n) (void)tree.Put(Scattered(*n), Text(*n));
    uint64_t leaves = 0;
    std::thread([&] { leaves = PutUntilFlush(tree, n)["flushed_leaves_total"]; }).join();
    return leaves;
  }
  static double FencesOfAPut(const TestTree::Options& options);
};
INSTANTIATE_TEST_SUITE_P(Media, OpenCommitsTest, ::testing::Values(Words::kInOrder, Words::kTear),
                         [](const auto& param) {
                           return param.param == Words::kTear ? "torn" : "prefixes";
                         });

double OpenCommitsTest::FencesOfAPut(const TestTree::Options& options) {
  TestTree tree(KeyFormat::kFixed64, options);
  Start(tree);
  for (uint64_t n = 0; n < kKeys; ++n) (void)tree.Put(Scattered(n), Text(n));
  const Effect effect = tree.EffectOf([&] {
    for (uint64_t n = kKeys; n < 2 * kKeys; ++n) (void)tree.Put(Scattered(n), Text(n));
  });
  tree.ExpectSound();
  return static_cast<double>(effect.cost.fences) / kKeys;
}

TEST_P(OpenCommitsTest, AFlushCostsNoFence) {
  EXPECT_LE(FencesOfAPut({}), 1.02);
  EXPECT_GE(FencesOfAPut({{"deferred_close", "0"}}), tear() ? 1.6 : 1.3);
}

TEST(CommitMarkTest, TellsOpenFromClosed) {
  OpenCommits commits;
  EXPECT_FALSE(commits.MayBeOpen({0, 0}));
  const CommitMark first = commits.Open();
  EXPECT_TRUE(commits.any());
  EXPECT_TRUE(commits.MayBeOpen(first));
  EXPECT_EQ(commits.Open().round, first.round);  // more of the same
  EXPECT_FALSE(commits.MayBeOpen(commits.ClosedMark()));
  commits.Close();
  EXPECT_FALSE(commits.any());
  EXPECT_FALSE(commits.MayBeOpen(first));
  const CommitMark second = commits.Open();
  EXPECT_TRUE(commits.MayBeOpen(second));
  EXPECT_FALSE(commits.MayBeOpen(first));
}

// Else a leaf could be reached only through the open commit of one in another node, of which who
// writes there knows nothing.
TEST_P(OpenCommitsTest, ANodeIsClosedBeforeItSplits) {
  TestTree tree(KeyFormat::kFixed64);
  Start(tree);
  uint64_t splits = 0;
  for (uint64_t n = 0; n < kKeys; ++n) {
    const Effect effect = PutScattered(tree, n);
    if (effect["node_splits_total"] == 0) continue;
    ++splits;
    // A second commit is fenced, and leaves nothing open.
    ASSERT_GE(effect["nodes_closed_total"] + effect["second_commits_total"], 1u) << n;
  }
  EXPECT_GT(splits, 50u);
}

// The puts leave one in twenty keys; nodes are joined after flushes of the same operation.
TEST_P(OpenCommitsTest, LeavesAndNodesAreClosedBeforeTheyAreJoined) {
  TestTree tree(KeyFormat::kFixed64);
  Start(tree);
  for (uint64_t n = 0; n < kKeys; ++n) (void)tree.Put(Scattered(n), Text(n));
  uint64_t merging = 0;
  for (uint64_t n = 0; n < kKeys; ++n) {
    if (n % 20 == 0) continue;
    const Effect effect =
        tree.EffectOf([&] { EXPECT_EQ(tree.Delete(Scattered(n)), Outcome::kOk); });
    if (effect["merged_leaves_total"] == 0 || effect["buffer_flushes_total"] == 0) continue;
    ++merging;
    ASSERT_GE(effect["nodes_closed_total"] + effect["second_commits_total"], 1u) << n;
  }
  EXPECT_GT(merging, 100u);
  tree.ExpectSound();
}

// A thread that takes over the worker slot of one that has ended flushes its open commits once
// more, and fences that: its own fences do not cover them.
TEST_P(OpenCommitsTest, ThoseOfAThreadThatEndedAreFlushedAgain) {
  TestTree tree(KeyFormat::kFixed64, {{"log_entries", "1000"}});
  uint64_t n = 0;
  const uint64_t leaves = StartWithCommitsOfAnEndedThread(tree, &n);
  ASSERT_GT(leaves, 0u);
  std::thread([&] {
    const Effect next = tree.PutEffect(Scattered(0), Text(1));
    ASSERT_EQ(next["buffer_flushes_total"], 0u);  // that would cost more by itself
    // Where words tear, the watermarks follow.
    EXPECT_EQ(next.cost.lines_flushed, 1 + (tear() ? 2 : 1) * leaves);
    EXPECT_EQ(next.cost.fences, 2u);
  }).join();
  tree.ExpectSound();
}

// Who has merged them away has closed them; their space may be returned to libpmemobj, and no
// journal may hold lines of that.
TEST_P(OpenCommitsTest, LeavesThatAreGoneAreNotFlushedAgain) {
  TestTree tree(KeyFormat::kFixed64, {{"log_entries", "1000"}});
  uint64_t n = 0;
  const uint64_t leaves = StartWithCommitsOfAnEndedThread(tree, &n);
  ASSERT_GT(leaves, 0u);
  const auto chunks = [&tree] {
    const auto all = tree.pool().Chunks();
    return std::ranges::count(all, pmem::ChunkUse::kNodes, &pmem::Chunk::use);
  };
  const auto before = chunks();
  for (uint64_t key = 0; key < n; ++key) (void)tree.Delete(Scattered(key));
  (void)tree.pool().CollectEmptyChunks();
  ASSERT_LT(chunks(), before / 2);
  std::thread([&] {
    const Effect next = tree.PutEffect(Scattered(0), Text(1));
    ASSERT_EQ(next["buffer_flushes_total"], 0u);
    EXPECT_EQ(next.cost.lines_flushed, 1u);
    EXPECT_EQ(next.cost.fences, 1u);
  }).join();
  tree.ExpectSound();
}

// Those of another thread in a node where a group only buffers stay marked, also when the group's
// own ones, in other nodes, are closed.
TEST_P(OpenCommitsTest, AGroupThatOnlyBuffersInANodeLeavesItsMark) {
  TestTree tree(KeyFormat::kFixed64, {{"log_entries", "1000"}});
  Start(tree);
  for (uint64_t n = 0; n < kKeys; ++n) (void)tree.Put(Scattered(n), Text(n));
  // The thread ends with the test: until then nothing closes its commits.
  uint64_t key = 0;
  std::promise<void> opened;
  std::promise<void> end;
  std::thread opener([&] {
    (void)PutNeighboursUntilFlush(tree, &key);
    opened.set_value();
    end.get_future().wait();
  });
  opened.get_future().wait();
  const uint64_t elsewhere = uint64_t{1} << 63;
  std::vector<std::string> keys = {Text(++key), Text(++key)};  // one alone has no turn
  for (uint64_t i = 0; i < 40; ++i) keys.push_back(Text(elsewhere + i));
  std::vector<WriteOp> group;
  for (const std::string& text : keys) {
    group.push_back({.kind = WriteKind::kPut, .key = text, .value = text});
  }
  const Effect of_group = tree.EffectOf([&] { EXPECT_EQ(tree.Write(group), Outcome::kOk); });
  EXPECT_EQ(of_group["buffer_flushes_total"], 1u);
  EXPECT_EQ(of_group["nodes_closed_total"], 0u);
  (void)tree.Put(Text(elsewhere + 40), Text(0));  // closes the group's
  const Effect flush = PutNeighboursUntilFlush(tree, &key);
  EXPECT_EQ(flush["nodes_closed_total"], 1u);
  // What is owed for the node is durable before the other thread could give up its log entries.
  EXPECT_EQ(flush.cost.fences, tear() ? 3u : 2u);
  end.set_value();
  opener.join();
  tree.ExpectSound();
}

// Nothing is open in a pool that was closed.
TEST_P(OpenCommitsTest, AnEngineClosesThoseOfAllThreads) {
  TestTree tree(KeyFormat::kFixed64);
  Start(tree);
  uint64_t n = 0;
  std::thread([&] {
    for (; n < kKeys; ++n) (void)tree.Put(Scattered(n), Text(n));
    (void)PutUntilFlush(tree, &n);
  }).join();
  tree.CloseAndRecover();
  EXPECT_EQ(tree.recovery().log_entries_replayed, 0u);
  EXPECT_EQ(tree.Get(Scattered(n - 1)), Text(n - 1));
  tree.ExpectSound();
}

}  // namespace
}  // namespace lodgekv::lodgetree
