// M of the Hotness-Aware Multiple Split (LodgeTree III-C) and Formula 1, observed through counters:
// the number of nodes that each split makes of one node. Ascending keys repeatedly split the
// rightmost node, which the previous split made; descending keys split the leftmost, which stays in
// place. Each must inherit the times of earlier splits.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

constexpr uint64_t kTick = 1024;  // sequence numbers

enum class Splitting : uint8_t { kRightmost, kLeftmost };

class HotnessAwareSplitTest : public ::testing::TestWithParam<Splitting> {
 protected:
  // Small nodes, so that a few dozen puts split one.
  void New(TestTree::Options options = {}) {
    options.insert({{"node_slots", "8"}, {"leaf_slots", "4"}});
    tree_ = std::make_unique<TestTree>(KeyFormat::kFixed64, options);
    puts_ = 0;
  }
  static std::string Key(uint64_t n) {
    constexpr uint64_t kMiddle = uint64_t{1} << 32;
    return Text(GetParam() == Splitting::kRightmost ? kMiddle + n : kMiddle - n);
  }

  // Advances the clock of the splits by `ticks`, to the begin of a tick, which lasts longer than
  // the puts of any test.
  void Advance(uint64_t ticks) {
    pmem::Pool& pool = tree_->pool();
    (void)pool.TakeSequence(ticks * kTick - pool.PeekSequence() % kTick);
  }

  // Puts keys after the others until the node there splits; returns the number of nodes it became.
  uint64_t Split() {
    for (int i = 0; i < 1000; ++i) {
      ++puts_;
      const Effect effect = tree_->PutEffect(Key(puts_), Text(puts_));
      if (effect["node_splits_total"] == 0) continue;
      EXPECT_EQ(effect["node_splits_total"], 1u);
      adding_ += effect["adding_splits_total"];
      reducing_ += effect["reducing_splits_total"];
      return effect["last_level_nodes"] + 1;
    }
    ADD_FAILURE() << "no split in 1000 puts";
    return 0;
  }
  uint64_t Counter(const char* name) { return tree_->Counters()[name]; }
  uint64_t FreeSlots() { return 30 - (Counter("last_level_nodes") - 1); }

  std::unique_ptr<TestTree> tree_;
  uint64_t puts_ = 0;
  uint64_t adding_ = 0;
  uint64_t reducing_ = 0;
};

TEST_P(HotnessAwareSplitTest, TheFirstSplitMakesTwo) {
  New();
  Advance(1000);
  EXPECT_EQ(Split(), 2u);
  EXPECT_EQ(adding_ + reducing_, 0u);
}

TEST_P(HotnessAwareSplitTest, ABurstAddsANode) {
  New();
  Advance(1000);
  EXPECT_EQ(Split(), 2u);
  EXPECT_EQ(Split(), 3u);  // 1000 ticks between splits, then none: M + 1
  EXPECT_EQ(adding_, 1u);
  EXPECT_EQ(Split(), 3u);  // as fast as the last time: M
  EXPECT_EQ(adding_, 1u);
  EXPECT_EQ(reducing_, 0u);
}

TEST_P(HotnessAwareSplitTest, CoolingTakesANodeAwayButNeverBelowTwo) {
  New();
  Advance(1000);
  Split();
  EXPECT_EQ(Split(), 3u);
  Advance(1000);
  EXPECT_EQ(Split(), 2u);
  EXPECT_EQ(reducing_, 1u);
  Advance(10000);
  EXPECT_EQ(Split(), 2u);
  EXPECT_EQ(reducing_, 2u);
}

TEST_P(HotnessAwareSplitTest, TheRatioSaysWhatABurstIs) {
  for (const char* t : {"2", "64"}) {
    New({{"hotness_ratio", t}});
    Advance(1000);
    Split();
    Advance(100);
    // Ten times faster than the last time.
    EXPECT_EQ(Split(), std::string(t) == "2" ? 3u : 2u) << t;
  }
}

TEST_P(HotnessAwareSplitTest, TheRatioSaysWhatCoolingIs) {
  for (const char* t : {"2", "64"}) {
    New({{"hotness_ratio", t}});
    Advance(1000);
    Split();
    Advance(10);
    EXPECT_EQ(Split(), 3u) << t;
    Advance(100);
    // Ten times slower than the last time.
    EXPECT_EQ(Split(), std::string(t) == "2" ? 2u : 3u) << t;
  }
}

// Two bursts in a row: M is 4.
TEST_P(HotnessAwareSplitTest, MGrowsWithEachBurst) {
  New();
  Advance(1000);
  EXPECT_EQ(Split(), 2u);
  Advance(100);
  EXPECT_EQ(Split(), 3u);
  EXPECT_EQ(Split(), 4u);
  EXPECT_EQ(adding_, 2u);
}

// Formula 1: with X free slots in the parent a split makes at most X nodes; one free slot means two
// nodes. The parent splits only if it was full before.
TEST_P(HotnessAwareSplitTest, TheParentsRoomBoundsM) {
  New();
  Advance(1000);
  Split();
  Advance(100);
  Split();
  ASSERT_EQ(Split(), 4u);
  while (FreeSlots() > 3) ASSERT_EQ(Split(), 4u);
  ASSERT_EQ(FreeSlots(), 3u);
  EXPECT_EQ(Split(), 3u);  // M = 4 > X = 3
  ASSERT_EQ(FreeSlots(), 1u);
  EXPECT_EQ(Split(), 2u);  // X = 1
  EXPECT_EQ(FreeSlots(), 0u);
  EXPECT_EQ(Counter("inner_nodes"), 1u);
  Split();
  EXPECT_EQ(Counter("inner_nodes"), 3u);  // the full parent has become two, under a new root
  tree_->ExpectSound();
  for (uint64_t n = 1; n <= puts_; ++n) ASSERT_EQ(tree_->Get(Key(n)), Text(n));
}

TEST_P(HotnessAwareSplitTest, MaxSplitBoundsM) {
  New({{"max_split", "2"}});
  Advance(1000);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Split(), 2u);
  EXPECT_GT(adding_, 0u);
}

// A node that splits with three leaves becomes at most three nodes.
TEST_P(HotnessAwareSplitTest, TheNodesLeavesBoundM) {
  New({{"node_slots", "4"}});
  Advance(100000);
  EXPECT_EQ(Split(), 2u);
  for (const uint64_t ticks : {10000, 1000, 100}) {
    Advance(ticks);
    EXPECT_EQ(Split(), 3u);
  }
  EXPECT_EQ(adding_, 3u);  // each to M = 4
  tree_->ExpectSound();
}

TEST_P(HotnessAwareSplitTest, SwitchedOffItMakesTwo) {
  New({{"multiple_split", "0"}});
  Advance(1000);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Split(), 2u);
  EXPECT_EQ(adding_ + reducing_, 0u);
}

INSTANTIATE_TEST_SUITE_P(Nodes, HotnessAwareSplitTest,
                         ::testing::Values(Splitting::kRightmost, Splitting::kLeftmost),
                         [](const auto& parameters) {
                           return parameters.param == Splitting::kRightmost ? "Rightmost"
                                                                            : "Leftmost";
                         });

}  // namespace
}  // namespace lodgekv::lodgetree
