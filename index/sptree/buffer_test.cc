// Write buffers: what a write costs, what readers see of leaf and buffer together, and that a flush
// takes all of it.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "index/pmem/testing/hosted_tracer.h"
#include "index/sptree/sptree_test_util.h"

namespace lodgekv::sptree {
namespace {

const TestTree::Options kBuffers = {{"write_buffer_pairs", "14"}};

class BufferTest : public ::testing::TestWithParam<KeyFormat> {};
INSTANTIATE_TEST_SUITE_P(, BufferTest, ::testing::Values(KeyFormat::kFixed64, KeyFormat::kBytes));

TEST(BufferCostTest, AnInsertIsOneLineAndOneFence) {
  TestTree tree(KeyFormat::kFixed64, kBuffers);
  ASSERT_EQ(tree.Put(Text(1), Text(1)), Outcome::kOk);  // opens a log
  const Effect effect = tree.PutEffect(Text(7), Text(8));
  EXPECT_EQ(effect.cost.lines_flushed, 1u);
  EXPECT_EQ(effect.cost.fences, 1u);
  EXPECT_EQ(effect["buffered_writes_total"], 1u);
  EXPECT_EQ(TestTree::PairsOf(tree.Leaves()[0]), 0u);
}

// The 15th pair finds a full buffer: its 14 pairs, the tags and the bitmap's line are flushed once.
TEST(BufferCostTest, AFullBufferIsFlushedInTwoPhases) {
  TestTree tree(KeyFormat::kFixed64, kBuffers);
  for (uint64_t i = 0; i < 14; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  const Effect effect = tree.PutEffect(Text(14), Text(8));
  EXPECT_EQ(effect["buffer_flushes_total"], 1u);
  EXPECT_EQ(effect.cost.fences, 3u);
  EXPECT_EQ(effect.cost.lines_flushed, 4u + 1u + 1u + 1u);
  EXPECT_EQ(TestTree::PairsOf(tree.Leaves()[0]), 14u);
}

TEST(BufferCostTest, RandomInserts) {
  constexpr uint64_t kKeys = 60'000;
  TestTree tree(KeyFormat::kFixed64, kBuffers);
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
  }
  const Cost before = ThreadCost();
  for (uint64_t i = kKeys; i < 2 * kKeys; ++i) {
    ASSERT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
  }
  const Cost cost = ThreadCost() - before;
  const double lines = static_cast<double>(cost.lines_flushed) / kKeys;
  const double fences = static_cast<double>(cost.fences) / kKeys;
  std::printf("random insert: %.3f lines, %.3f fences; DRAM: %.3f of the leaves\n", lines, fences,
              tree.DramShare());
  EXPECT_LE(lines, 2.2);
  EXPECT_LE(fences, 1.5);
  EXPECT_LE(tree.DramShare(), 0.45);
}

std::map<std::string, std::string> Scan(TestTree& tree) {
  std::map<std::string, std::string> all;
  std::string last;
  const auto visit = [&](const ScanItem& item) {
    EXPECT_LT(last, item.key);
    last = item.key;
    all.emplace(item.key, item.value);
    return true;
  };
  EXPECT_EQ(tree.engine().Scan({}, visit), Outcome::kOk);
  return all;
}

// A tree, and what it must have.
class Modelled {
 public:
  Modelled(KeyFormat format, const TestTree::Options& options) : tree_(format, options) {}
  TestTree& tree() { return tree_; }

  // One operation on one of 500 keys, now and then a group of three.
  void Step(uint64_t i) {
    const uint64_t random = RandomWord(i);
    std::vector<std::string> keys;
    for (uint64_t k = 0; k < (random >> 40 & 15 ? 1U : 3U); ++k) {
      keys.push_back(Text(1 + (random + k * 97) % 500));
    }
    const std::string value = Text(i + 1);
    std::vector<WriteOp> ops;
    const bool remove = random >> 60 < 6;
    for (const std::string& key : keys) {
      ops.push_back({.kind = remove ? WriteKind::kDelete : WriteKind::kPut,
                     .key = key,
                     .value = remove ? std::string_view() : value});
      if (remove) {
        model_.erase(key);
      } else {
        model_[key] = value;
      }
    }
    ASSERT_EQ(tree_.Write(ops), Outcome::kOk);
    for (const std::string& key : keys) ASSERT_EQ(tree_.Get(key), remove ? "none" : value);
  }
  void Compare() {
    tree_.ExpectSound();
    EXPECT_EQ(tree_.engine().CountKeys(), model_.size());
    EXPECT_EQ(Scan(tree_), model_);
  }

 private:
  TestTree tree_;
  std::map<std::string, std::string> model_;
};

// Keys that often meet a buffered pair or tombstone.
TEST_P(BufferTest, LeafAndBufferAreOne) {
  Modelled modelled(GetParam(), {{"write_buffer_pairs", "5"}, {"leaf_slots", "12"}});
  for (uint64_t i = 0; i < 30'000; ++i) {
    modelled.Step(i);
    if (i % 1'000 == 0) modelled.Compare();
  }
}

TEST_P(BufferTest, WhatIsBufferedSurvivesAKill) {
  Modelled modelled(GetParam(), kBuffers);
  for (uint64_t i = 0; i < 20'000; ++i) {
    modelled.Step(i);
    if (i % 1'000 != 999) continue;
    modelled.tree().KillAndRecover(1 + i / 1'000 % 3);
    EXPECT_GT(modelled.tree().recovery().log_entries_replayed, 0u);
    modelled.Compare();
  }
}

// What is replayed stays in buffers, for which no leaf has to be settled: recovery leaves all of
// that to the background, or to who reads a leaf.
TEST_P(BufferTest, ReplaySettlesNoLeaf) {
  constexpr uint64_t kKeys = 100'000;
  TestTree tree(GetParam(), kBuffers);
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
  }
  pmem::HostedTracer tracer;
  tracer.Hold(pmem::HostedTracer::At::kStart);
  tree.arena().options().tracer = &tracer;
  tree.KillAndRecover(2);
  EXPECT_GT(tree.recovery().log_entries_replayed, kKeys / 20);
  EXPECT_EQ(tree.recovery().keys, kKeys);
  const RecoveryState state = tree.engine().GetRecoveryState();
  EXPECT_EQ(state.phase, "settling");
  EXPECT_EQ(state.done, 0u);
  EXPECT_GT(state.total, 100u);
  tracer.Hold(pmem::HostedTracer::At::kNowhere);
  EXPECT_EQ(tree.engine().CountKeys(), kKeys);
  tree.ExpectSound();
  tree.engine().Abandon();
}

TEST_P(BufferTest, TheNextOpeningMayHaveNoneAndSmallerLeaves) {
  Modelled modelled(GetParam(), kBuffers);
  for (uint64_t i = 0; i < 3'000; ++i) modelled.Step(i);
  modelled.tree().KillAndRecoverWith({{"write_buffer_pairs", "0"}});
  modelled.Compare();
  EXPECT_EQ(modelled.tree().Counters()["log_live_bytes"], 0u);
  for (uint64_t i = 3'000; i < 6'000; ++i) modelled.Step(i);
  modelled.tree().KillAndRecoverWith(kBuffers);
  modelled.Compare();
}

TEST_P(BufferTest, CloseLeavesNothingToReplay) {
  Modelled modelled(GetParam(), kBuffers);
  for (uint64_t i = 0; i < 3'000; ++i) modelled.Step(i);
  modelled.tree().CloseAndRecover();
  EXPECT_EQ(modelled.tree().recovery().log_entries_replayed, 0u);
  modelled.Compare();
}

}  // namespace
}  // namespace lodgekv::sptree
