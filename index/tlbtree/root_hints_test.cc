// Hints of where roots are: noted by descents, and never believed.
#include "index/tlbtree/root_hints.h"

#include <gtest/gtest.h>

#include "index/tlbtree/descent.h"
#include "index/tlbtree/tlbtree_test_util.h"

namespace lodgekv::tlbtree {

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(RootHintsTest, AnAnchorHasTheLastRootNoted) {
  const RootHints hints(kGiB);
  ASSERT_TRUE(hints.in_use());
  EXPECT_EQ(hints.At(64), 0u);
  hints.Note(64, 1024 * kGiB - 256);
  hints.Note(128, 512);
  EXPECT_EQ(hints.At(64), 1024 * kGiB - 256);
  EXPECT_EQ(hints.At(128), 512u);
  hints.Note(64, 768);
  EXPECT_EQ(hints.At(64), 768u);
  hints.Note(64, 1024 * kGiB);  // its number has 33 bits
  EXPECT_EQ(hints.At(64), 0u);
}

TEST(RootHintsTest, TheTableIsAsLargeAsThePoolMayNeed) {
  EXPECT_EQ(RootHints().UsedBytes(1000), 0u);
  EXPECT_FALSE(RootHints().in_use());
  EXPECT_EQ(RootHints(1).UsedBytes(10), 40u);
  EXPECT_EQ(RootHints(1).UsedBytes(10'000), 4096u);
  EXPECT_EQ(RootHints(1024 * kGiB).UsedBytes(uint64_t{1} << 40), uint64_t{4} << 20);
  const RootHints small(1);
  small.Note(64, 256);
  small.Note(64 + 1024 * 64, 512);  // of the same place
  EXPECT_EQ(small.At(64), 512u);
}

class HintedTreeTest : public ::testing::Test {
 protected:
  void Fill(TestEngine& tree) {
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  }
  void ExpectAll(TestEngine& tree) {
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(tree.Get(Text(i)), Text(i)) << i;
  }
  // The anchors above the keys, and the roots that they lead to.
  template <class Visit>
  void ForEachRoot(TestEngine& tree, Visit visit) {
    TreeState<Fixed64Codec>& state = FixedState(tree);
    const Descent<Fixed64Codec> descent(state);
    AnchorPlace place;
    for (pmem::Offset at = state.first_anchor(); at != 0; at = place.view.next) {
      ASSERT_TRUE(descent.ViewAnchor(at, &place));
      if (place.view.root.height > 1) visit(state.root_hints, at, place.view.root.node);
    }
  }

  static constexpr uint64_t kKeys = 2'000;
};

TEST_F(HintedTreeTest, ReadsNoteTheRootsThatTheyComeBy) {
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64);
  Fill(tree);
  ForEachRoot(tree, [](const RootHints& hints, pmem::Offset anchor, pmem::Offset) {
    hints.Note(anchor, 0);
  });
  ExpectAll(tree);
  int roots = 0;
  ForEachRoot(tree, [&](const RootHints& hints, pmem::Offset anchor, pmem::Offset root) {
    EXPECT_EQ(hints.At(anchor), root);
    ++roots;
  });
  EXPECT_GT(roots, 10);
}

TEST_F(HintedTreeTest, WrongHintsChangeNoAnswer) {
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64);
  Fill(tree);
  ForEachRoot(tree, [](const RootHints& hints, pmem::Offset anchor, pmem::Offset root) {
    hints.Note(anchor, root % 512 == 0 ? 256 : 512 * kGiB);  // beyond the pool
  });
  ExpectAll(tree);
  tree.ExpectSound();
}

TEST_F(HintedTreeTest, ATreeCanBeWithoutThem) {
  TestEngine tree(GetEngineInfo(), KeyFormat::kFixed64, {{"root_hints", "0"}});
  Fill(tree);
  EXPECT_FALSE(FixedState(tree).root_hints.in_use());
  ExpectAll(tree);
}

}  // namespace
}  // namespace lodgekv::tlbtree
