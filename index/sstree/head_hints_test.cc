// Hints of heads, beside the pointers to leaves in DRAM, as writes leave them.
#include <gtest/gtest.h>

#include "index/sstree/open_tree_test_util.h"

namespace lodgekv::sstree {
namespace {

using C = Fixed64Codec;

constexpr uint64_t kKeys = 5'000;

class HeadHintsTest : public ::testing::Test {
 protected:
  static uint64_t KeyAt(uint64_t i) { return i * 0x9E3779B97F4A7C15; }
  static pmem::Offset HintOf(const OpenTree& tree, uint64_t key) {
    uint64_t snapshot;
    BlockHint hint;
    (void)tree.state().inner.DescendForWrite(C::KeyOfWord(key), &snapshot, nullptr, &hint);
    return hint.block();
  }
};

TEST_F(HeadHintsTest, AWriteNotesTheHeadThatItCameTo) {
  OpenTree tree(TestEngine::Options{});
  for (uint64_t i = 0; i < kKeys; ++i) tree.Write(KeyAt(i));
  for (const bool remove : {false, true}) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      const pmem::Offset head = tree.LeafOf(KeyAt(i)).place.head();
      tree.Write(KeyAt(i), remove && i % 4 == 0);
      const pmem::Offset hint = HintOf(tree, KeyAt(i));
      // A write that has put something off has come there twice.
      ASSERT_TRUE(hint == head || hint == tree.LeafOf(KeyAt(i)).place.head()) << i;
    }
  }
}

TEST_F(HeadHintsTest, ALeafHasOneFromTheBeginning) {
  OpenTree tree(TestEngine::Options{});
  tree.Write(0);  // before it the only leaf had no head
  for (uint64_t i = 1; i < kKeys; ++i) {
    // Ascending keys begin leaves that no other write has come to yet.
    tree.Write(i);
    ASSERT_NE(HintOf(tree, i), 0u) << i;
  }
}

TEST_F(HeadHintsTest, ATreeCanBeWithoutThem) {
  OpenTree tree(TestEngine::Options{{"head_hints", "0"}});
  for (uint64_t i = 0; i < kKeys; ++i) tree.Write(KeyAt(i));
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(HintOf(tree, KeyAt(i)), 0u);
}

}  // namespace
}  // namespace lodgekv::sstree
