// Write buffers: what a write costs, what readers see of leaf and buffer together, and that a flush
// takes all of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
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

// Without the technique each of the pairs has two fences, and flushes the line of the bitmap.
TEST(BufferCostTest, WithoutTwoPhasesEachPairIsFlushedByItself) {
  TestTree tree(KeyFormat::kFixed64, {{"write_buffer_pairs", "14"}, {"two_phase", "0"}});
  for (uint64_t i = 0; i < 14; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  const Effect effect = tree.PutEffect(Text(14), Text(8));
  EXPECT_EQ(effect["buffer_flushes_total"], 1u);
  EXPECT_GE(effect.cost.fences, 2u * 14);
  EXPECT_GE(effect.cost.lines_flushed, 3u * 14);
  EXPECT_EQ(TestTree::PairsOf(tree.Leaves()[0]), 14u);
  tree.KillAndRecover();
  tree.ExpectSound();
  for (uint64_t i = 0; i < 14; ++i) EXPECT_EQ(tree.Get(Text(i)), Text(i));
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
  EXPECT_LE(tree.DramShare(), 0.34);  // a larger tree: 0.324
}

// A buffer's memory goes to the next leaf that is written to.
TEST(BufferMemoryTest, ALeafThatIsNotWrittenToHasNone) {
  TestTree tree(KeyFormat::kFixed64, kBuffers);
  for (uint64_t i = 0; i < 60'000; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  EXPECT_GT(tree.Leaves().size(), 900u);
  EXPECT_LE(tree.Counters()["buffer_dram_bytes"], 8192u);
  tree.ExpectSound();
}

// Then buffers are flushed before they are full, and writes go to the leaves.
TEST(BufferMemoryTest, IsLimited) {
  constexpr uint64_t kKeys = 60'000;
  constexpr uint64_t kLeast = uint64_t{64} << 10;
  TestTree tree(KeyFormat::kFixed64, {{"write_buffer_pairs", "14"}, {"write_buffer_share", "1"}});
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
  }
  auto counters = tree.Counters();
  EXPECT_LE(counters["buffer_dram_bytes"], kLeast);
  EXPECT_GT(counters["starved_flushes_total"], 0u);
  EXPECT_GT(counters["past_buffers_total"], 0u);
  EXPECT_GT(counters["log_reclaims_total"], 0u);
  tree.KillAndRecover();
  EXPECT_EQ(tree.engine().CountKeys(), kKeys);
  tree.ExpectSound();
}

// SPTree 4.1: two rounds of flushes, here of several leaves.
TEST(BufferCostTest, FlushesOfSeveralLeavesShareFences) {
  TestTree tree(KeyFormat::kFixed64, kBuffers);
  for (uint64_t i = 0; i < 20'000; ++i) {
    ASSERT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
  }
  const Effect effect = tree.EffectOf([&] { EXPECT_TRUE(tree.engine().Close().ok()); });
  const uint64_t flushes = effect["buffer_flushes_total"];
  EXPECT_GT(flushes, 300u);
  EXPECT_LE(effect.cost.fences, flushes * 2 / 8 + 4);
}

TEST(BufferCostTest, AGroupFlushesItsLeavesUnderSharedFences) {
  constexpr uint64_t kKeys = 20'000;
  constexpr uint64_t kGroup = 64;
  TestTree tree(KeyFormat::kFixed64, kBuffers);
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
  }
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < kGroup; ++i) texts.push_back(Text(RandomWord(7 * i)));
  std::vector<WriteOp> ops;
  for (const std::string& text : texts) {
    ops.push_back({.kind = WriteKind::kPut, .key = text, .value = text});
  }
  const Effect effect = tree.EffectOf([&] { EXPECT_EQ(tree.Write(ops), Outcome::kOk); });
  EXPECT_GT(effect["buffer_flushes_total"], kGroup / 2);
  EXPECT_LE(effect.cost.fences, kGroup / 2);
  for (const std::string& text : texts) EXPECT_EQ(tree.Get(text), text);
  tree.ExpectSound();
}

// Counts the blocks that the medium writes behind a buffer that combines writes: as many of the
// last blocks as that of a persistent DIMM holds, 16 KiB.
class MediaBlocks final : public pmem::Tracer {
 public:
  void OnStore(const void* at, size_t, bool streamed) override {
    if (streamed) Note(at);
  }
  void OnFlush(const void* line) override { Note(line); }
  void OnFence() override {}
  void OnCrashPoint(std::string_view) override {}
  bool OnCanary(std::string_view) override { return false; }
  uint64_t written() const { return written_; }

 private:
  static constexpr size_t kCombined = (size_t{16} << 10) / pmem::kBlockBytes;

  void Note(const void* at) {
    const uint64_t block = reinterpret_cast<uintptr_t>(at) / pmem::kBlockBytes;
    const auto found = std::find(recent_.begin(), recent_.end(), block);
    if (found != recent_.end()) {
      recent_.erase(found);
    } else {
      ++written_;
    }
    recent_.push_back(block);
    if (recent_.size() > kCombined) recent_.pop_front();
  }

  std::deque<uint64_t> recent_;  // the one used last is behind
  uint64_t written_ = 0;
};

double BlocksOfAnInsert(const TestTree::Options& options) {
  constexpr uint64_t kKeys = 60'000;
  MediaBlocks blocks;
  TestTree tree(KeyFormat::kFixed64, options);
  const auto put = [&](uint64_t begin) {
    for (uint64_t i = begin; i < begin + kKeys; ++i) {
      EXPECT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
    }
  };
  put(0);
  tree.arena().options().tracer = &blocks;
  tree.KillAndRecover();
  (void)tree.engine().CountKeys();  // settles all
  const uint64_t before = blocks.written();
  put(kKeys);
  const uint64_t written = blocks.written() - before;
  tree.engine().Abandon();
  return static_cast<double>(written) / kKeys;
}

// SPTree 5.2: what write buffers are for.
TEST(BufferCostTest, TheMediumWritesAThirdOfTheBlocks) {
  const double direct = BlocksOfAnInsert({});
  const double buffered = BlocksOfAnInsert(kBuffers);
  std::printf("blocks of a random insert: %.3f, with buffers %.3f\n", direct, buffered);
  EXPECT_LE(buffered, direct / 3);
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

// Where all is replayed at once it stays in buffers, for which no leaf has to be settled: recovery
// leaves all of that to the background, or to who reads a leaf.
TEST_P(BufferTest, ReplaySettlesNoLeaf) {
  constexpr uint64_t kKeys = 100'000;
  TestTree tree(GetParam(), {{"write_buffer_pairs", "14"}, {"lazy_replay", "0"}});
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
