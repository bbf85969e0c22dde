// In which of its leaf's lines a pair is.
#include "index/sptree/home_line.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <string>
#include <vector>

#include "index/node/key_word.h"
#include "index/sptree/sptree_test_util.h"

namespace lodgekv::sptree {
namespace {

constexpr uint64_t kKeys = 20'000;

void Load(TestTree& tree) {
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(tree.Put(Text(RandomWord(i)), Text(i)), Outcome::kOk);
  }
}

// The share of the pairs that are in their home lines.
double AtHome(TestTree& tree) {
  uint64_t pairs = 0;
  uint64_t at_home = 0;
  for (const media::Bnode* leaf : tree.Leaves()) {
    for (uint64_t slots = leaf->bitmap.Load(); slots != 0; slots &= slots - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(slots));
      const unsigned home = HomeOf(SlotHashOfWord(SlotPair(*leaf, slot).key));
      at_home += slot / kSlotsOfLine == home / kSlotsOfLine;
      ++pairs;
    }
  }
  const double share = static_cast<double>(at_home) / static_cast<double>(pairs);
  std::printf("in their home lines: %.3f of the pairs\n", share);
  return share;
}

TEST(HomeLineTest, FourPairsInFiveAreAtHomeAfterARandomLoad) {
  TestTree tree(KeyFormat::kFixed64);
  Load(tree);
  EXPECT_GE(AtHome(tree), 0.75);
  tree.ExpectSound();
}

TEST(HomeLineTest, WithoutTheTechniqueOnlyByChance) {
  TestTree tree(KeyFormat::kFixed64, {{"home_lines", "0"}});
  Load(tree);
  EXPECT_LE(AtHome(tree), 0.15);
}

// A pair may lie anywhere: who opens the tree with the technique finds what was put without it.
TEST(HomeLineTest, LeavesThatWereWrittenWithoutItAreRead) {
  TestTree tree(KeyFormat::kFixed64, {{"home_lines", "0"}});
  Load(tree);
  tree.KillAndRecoverWith({{"home_lines", "1"}});
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(tree.Get(Text(RandomWord(i))), Text(i));
}

// SPTree 4.1: as few lines as the pairs need.
TEST(HomeLineTest, AWriteBufferGoesToAdjacentSlots) {
  TestTree tree(KeyFormat::kFixed64, {{"write_buffer_pairs", "14"}});
  Load(tree);
  EXPECT_LE(AtHome(tree), 0.15);
}

TEST(HomeLineTest, TheFirstFreeSlotIsSoughtFromHomeOnAndThenFromTheLeafsFirst) {
  EXPECT_EQ(FirstFreeFrom(8, ~uint64_t{0}), 8u);
  EXPECT_EQ(FirstFreeFrom(8, uint64_t{1} << 40 | 1), 40u);
  EXPECT_EQ(FirstFreeFrom(8, 4), 2u);
}

}  // namespace
}  // namespace lodgekv::sptree
