// The two layers as they grow and shrink.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "index/node/checked_word.h"
#include "index/tlbtree/layout.h"
#include "index/tlbtree/tlbtree_test_util.h"
#include "index/tlbtree/top_view.h"

namespace lodgekv::tlbtree {

namespace {

class TreeTest : public ::testing::TestWithParam<KeyFormat> {
 protected:
  static std::string Key(uint64_t i) {
    if (GetParam() == KeyFormat::kFixed64) return Text(i);
    // Long ones that share a prefix, and whose separators need records.
    return "a-prefix-that-all-keys-share/" + std::to_string(i) + "/end";
  }
  static std::string Value(uint64_t i) { return Text(i); }
  void Put(TestEngine& tree, uint64_t i) { ASSERT_EQ(tree.Put(Key(i), Value(i)), Outcome::kOk); }

  static void ExpectAll(TestEngine& tree, uint64_t begin, uint64_t end, uint64_t step = 1) {
    for (uint64_t i = begin; i < end; i += step) ASSERT_EQ(tree.Get(Key(i)), Value(i)) << i;
  }
  static uint64_t AwaitRebuild(TestEngine& tree) {
    for (int i = 0; i < 1000 && tree.Counters()["rebuilds_total"] == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return tree.Counters()["rebuilds_total"];
  }
  static TestEngine::Options Small() { return {{"leaf_slots", "4"}, {"node_slots", "3"}}; }
};

TEST_P(TreeTest, AscendingKeysFillLeavesAndAreFound) {
  TestEngine tree(GetEngineInfo(), GetParam());
  constexpr uint64_t kKeys = 20'000;
  for (uint64_t i = 0; i < kKeys; ++i) Put(tree, i + 100'000);
  ExpectAll(tree, 100'000, 100'000 + kKeys);
  tree.ExpectSound();
}

TEST_P(TreeTest, ScatteredKeysAreFound) {
  TestEngine tree(GetEngineInfo(), GetParam(), Small());
  constexpr uint64_t kKeys = 10'000;
  for (uint64_t i = 0; i < kKeys; ++i) Put(tree, i * 7919 % kKeys);
  ExpectAll(tree, 0, kKeys);
  tree.ExpectSound();
  tree.KillAndRecover();
  ExpectAll(tree, 0, kKeys);
  tree.ExpectSound();
}

TEST_P(TreeTest, AnEmptiedTreeGivesItsSpaceBack) {
  TestEngine tree(GetEngineInfo(), GetParam(), Small());
  constexpr uint64_t kKeys = 5'000;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < kKeys; ++i) Put(tree, i);
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(tree.Delete(Key(i)), Outcome::kOk);
    tree.ExpectSound();
  }
  EXPECT_LT(tree.Counters()["nodes"], 20u);
}

TEST_P(TreeTest, TheTopLayerIsBuiltAnew) {
  TestEngine tree(GetEngineInfo(), GetParam(), Small());
  for (uint64_t i = 0; i < 20'000; ++i) Put(tree, i * 7919 % 20'000);
  EXPECT_GT(AwaitRebuild(tree), 0u);
  EXPECT_GT(tree.Counters()["top_entries"], 100u);
  tree.KillAndRecover();
  EXPECT_GT(tree.Counters()["top_entries"], 100u);
  ExpectAll(tree, 0, 20'000);
  tree.ExpectSound();
}

// Nobody writes: recovery itself asks for a new one.
TEST_P(TreeTest, ATopLayerThatWasLostIsBuiltAnewInAPoolThatIsOnlyRead) {
  TestEngine tree(GetEngineInfo(), GetParam(), Small());
  for (uint64_t i = 0; i < 5'000; ++i) Put(tree, i * 7919 % 5'000);
  ASSERT_GT(AwaitRebuild(tree), 0u);
  // Nor is another one on its way, which would replace what is damaged here.
  const bool fixed64 = GetParam() == KeyFormat::kFixed64;
  (fixed64 ? FixedState(tree).background : BytesState(tree).background).WaitUntilIdle();
  pmem::Offset generation;
  ASSERT_TRUE(ReadChecked(tree.pool().engine_area()[media::kTop].Load(), &generation));
  auto* header = tree.pool().At<media::TopHeader>(generation + pmem::kBlockBytes);
  tree.pool().medium().Store(header->entries, header->entries.Load() + 1);
  tree.KillAndRecover();
  EXPECT_GT(AwaitRebuild(tree), 0u);
  EXPECT_GT(tree.Counters()["top_entries"], 100u);
  ExpectAll(tree, 0, 5'000);
  tree.ExpectSound();
}

TEST_P(TreeTest, EachPairPutIsInOneOfTheInsertCounters) {
  TestEngine tree(GetEngineInfo(), GetParam(), Small());
  for (uint64_t i = 0; i < 2'000; ++i) Put(tree, i * 7919 % 2'000);
  auto counters = tree.Counters();
  EXPECT_GT(counters["leaf_splits_total"], 100u);
  EXPECT_EQ(counters["one_line_inserts_total"] + counters["two_line_inserts_total"], 2'000u);
}

// An atomic batch has a spare leaf for each put, and no more.
TEST_P(TreeTest, AGroupSplitsALeafOnceAPutWhereLeavesHoldMoreThanTheyMay) {
  TestEngine tree(GetEngineInfo(), GetParam());
  for (uint64_t i = 0; i < 5'000; ++i) Put(tree, i * 10 + 100'000);
  tree.KillAndRecoverWith({{"leaf_slots", "4"}});
  for (uint64_t i = 0; i < 10; ++i) {
    const uint64_t before = tree.Counters()["leaf_splits_total"];
    const std::string keys[] = {Key(100'005 + i * 2'000), Key(130'005 + i * 2'000)};
    const std::string value = Value(i);
    ASSERT_EQ(tree.Write({{.kind = WriteKind::kPut, .key = keys[0], .value = value},
                          {.kind = WriteKind::kPut, .key = keys[1], .value = value}},
                         {.atomic = i % 2 == 0}),
              Outcome::kOk);
    EXPECT_LE(tree.Counters()["leaf_splits_total"], before + 2) << i;
    EXPECT_EQ(tree.Get(keys[1]), value);
  }
  tree.ExpectSound();
}

INSTANTIATE_TEST_SUITE_P(Formats, TreeTest,
                         ::testing::Values(KeyFormat::kFixed64, KeyFormat::kBytes),
                         [](const auto& of) {
                           return of.param == KeyFormat::kFixed64 ? "fixed64" : "bytes";
                         });

}  // namespace
}  // namespace lodgekv::tlbtree
