// Hints of where roots are: noted by descents, and never believed.
#include "index/tlbtree/root_hints.h"

#include <gtest/gtest.h>

#include <string>

#include "index/node/epoch.h"
#include "index/tlbtree/descent.h"
#include "index/tlbtree/tlbtree_test_util.h"
#include "index/tlbtree/top_rebuild.h"

namespace lodgekv::tlbtree {

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(RootHintsTest, APlaceHasTheLastRootNoted) {
  const RootHints hints(10);
  EXPECT_EQ(hints.bytes(), 640u);
  EXPECT_EQ(hints.At(9, 15).block(), 0u);
  hints.At(3, 4).Note(1024 * kGiB - 256);
  hints.At(3, 5).Note(512);
  EXPECT_EQ(hints.At(3, 4).block(), 1024 * kGiB - 256);
  EXPECT_EQ(hints.At(3, 5).block(), 512u);
  hints.At(3, 4).Note(768);
  EXPECT_EQ(hints.At(3, 4).block(), 768u);
  hints.At(3, 4).Note(1024 * kGiB);  // its number has 33 bits
  EXPECT_EQ(hints.At(3, 4).block(), 0u);
}

TEST(RootHintsTest, HintsMoveWithTheirAnchors) {
  const RootHints hints(2);
  for (unsigned slot = 0; slot < 5; ++slot) hints.At(1, slot).Note(256 * (slot + 1));
  hints.Shift(1, 2, 4);
  const pmem::Offset expected[] = {256, 512, 0, 768, 1024, 0};
  for (unsigned slot = 0; slot < 6; ++slot) {
    EXPECT_EQ(hints.At(1, slot).block(), expected[slot]) << slot;
    EXPECT_EQ(hints.At(0, slot).block(), 0u);
  }
}

TEST(RootHintsTest, ThereCanBeNone) {
  const RootHints none;
  EXPECT_EQ(none.bytes(), 0u);
  none.Fetch(7);
  none.Shift(7, 0, 15);
  none.At(7, 3).Note(256);
  EXPECT_EQ(none.At(7, 3).block(), 0u);
}

class HintedTreeTest : public ::testing::Test {
 protected:
  // Then the top layer is built anew, over all sub-indices, for the only time.
  void Fill(TestEngine& tree) {
    for (uint64_t i = 0; i < kKeys; ++i) Put(tree, 10 * i);
    TopRebuild<Fixed64Codec>(FixedState(tree)).Request();
    FixedState(tree).background.WaitUntilIdle();
  }
  void Put(TestEngine& tree, uint64_t number) {
    ASSERT_EQ(tree.Put(Text(number), Text(number)), Outcome::kOk);
  }
  void ExpectAll(TestEngine& tree) {
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(tree.Get(Text(10 * i)), Text(10 * i)) << i;
  }
  // The sub-indices that the top layer leads to, and their hints.
  template <class Visit>
  void ForEachRoot(TestEngine& tree, Visit visit) {
    TreeState<Fixed64Codec>& state = FixedState(tree);
    const EpochGuard guard;
    const Descent<Fixed64Codec> descent(state);
    AnchorPlace place;
    for (pmem::Offset at = state.first_anchor(); at != 0; at = place.view.next) {
      ASSERT_TRUE(descent.ViewAnchor(at, &place));
      const std::string low = OwnTextOfLow<Fixed64Codec>(state.pool, place.view.low);
      const Fixed64Codec::Key key = Fixed64Codec::MakeKey(low);
      AnchorPlace found;
      ASSERT_TRUE(descent.NearAnchor(Target<Fixed64Codec>{&key}, &found));
      if (found.offset == at && place.view.root.height > 1) visit(found.hint, place.view.root.node);
    }
  }
  struct Counts {
    int right = 0;
    int unknown = 0;
    int wrong = 0;
  };
  Counts Count(TestEngine& tree) {
    Counts counts;
    ForEachRoot(tree, [&](BlockHint hint, pmem::Offset root) {
      ++(hint.block() == root ? counts.right : hint.block() == 0 ? counts.unknown : counts.wrong);
    });
    return counts;
  }

  static constexpr uint64_t kKeys = 2'000;
};

TEST_F(HintedTreeTest, ReadsNoteTheRootsThatTheyComeBy) {
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64, {{"rebuild_steps", "0"}});
  Fill(tree);
  const int roots = Count(tree).unknown;
  EXPECT_GT(roots, 10);
  EXPECT_EQ(Count(tree).right, 0);
  ExpectAll(tree);
  EXPECT_EQ(Count(tree).right, roots);
}

TEST_F(HintedTreeTest, TheyAreRightAfterASubIndexWasAdded) {
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64, {{"rebuild_steps", "0"}});
  Fill(tree);
  ExpectAll(tree);
  const int roots = Count(tree).right;
  for (uint64_t number = 1'001; number < 1'800; ++number) Put(tree, number);
  for (uint64_t number = 0; number < 3'000; ++number) (void)tree.Get(Text(number));
  EXPECT_GT(Count(tree).right, roots);
  EXPECT_EQ(Count(tree).wrong, 0);  // also of those beside them
}

TEST_F(HintedTreeTest, WrongHintsChangeNoAnswer) {
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64, {{"rebuild_steps", "0"}});
  Fill(tree);
  ForEachRoot(tree, [](BlockHint hint, pmem::Offset root) {
    hint.Note(root % 512 == 0 ? 256 : 512 * kGiB);  // beyond the pool
  });
  EXPECT_GT(Count(tree).wrong, 10);
  ExpectAll(tree);
  tree.ExpectSound();
}

TEST_F(HintedTreeTest, ATreeCanBeWithoutThem) {
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64,
                  {{"rebuild_steps", "0"}, {"root_hints", "0"}, {"top_shortcuts", "0"}});
  Fill(tree);
  EXPECT_EQ(FixedState(tree).top.dram_bytes(), 0u);
  ExpectAll(tree);
  EXPECT_EQ(Count(tree).right, 0);
}

}  // namespace
}  // namespace lodgekv::tlbtree
