// Groups of operations: what other threads may see during a commit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "index/sstree/sstree_test_util.h"

namespace lodgekv::sstree {
namespace {

TEST(GroupTest, PairsAreReadWhileParentsLearnOfTheNewLeaves) {
  TestTree tree(KeyFormat::kFixed64);
  // A full leaf.
  for (uint64_t i = 140; i > 0; i -= 5) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  const std::string greatest = Text(140);  // of the leaf that is left behind
  unsigned seen = 0;
  CallingTracer tracer("sstree.group_split.3", [&] {
    EXPECT_EQ(tree.Get(greatest), greatest);
    ++seen;
  });
  tree.arena().options().tracer = &tracer;
  tree.KillAndRecover();
  tree.arena().options().tracer = nullptr;
  std::vector<std::string> keys;
  for (uint64_t i = 141; i <= 160; ++i) keys.push_back(Text(i));  // above it, for two new ones
  std::vector<WriteOp> ops;
  for (const std::string& key : keys) ops.push_back({.key = key, .value = key});
  ASSERT_EQ(tree.Write(ops), Outcome::kOk);
  EXPECT_EQ(seen, 2u);
  EXPECT_EQ(tree.engine().CountKeys(), 28u + 20u);
  tree.KillAndRecover();  // without the tracer
  tree.ExpectSound();
}

// As a lone one does. It would be two lines to move the pair to the overflow subnode, and it would
// be away from the other pairs that are updated.
TEST(GroupUpdateTest, ChangesAValueInItsSlotWhereTheHeadIsFull) {
  TestTree tree(KeyFormat::kFixed64);
  for (uint64_t i = 14; i >= 1; --i) ASSERT_EQ(tree.Put(Text(100 + 2 * i), Text(i)), Outcome::kOk);
  for (uint64_t i = 1; i <= 14; ++i) ASSERT_EQ(tree.Put(Text(2 * i), Text(i)), Outcome::kOk);
  ASSERT_EQ(tree.Delete(Text(110)), Outcome::kOk);
  const std::vector<uint64_t> head = TestTree::KeysOf(tree.OnlyLeaf(), 0);
  ASSERT_EQ(head.size(), 14u);
  const std::string hot = Text(head[3]);
  const std::string absent = Text(999'999);
  const Effect effect = tree.EffectOf([&] {
    EXPECT_EQ(tree.Write({{.kind = WriteKind::kPut, .key = hot, .value = absent},
                          {.kind = WriteKind::kDelete, .key = absent}}),
              Outcome::kOk);
  });
  EXPECT_EQ(effect.cost.lines_flushed, 1u);
  EXPECT_EQ(effect.cost.fences, 1u);
  EXPECT_EQ(effect["filled_holes_total"], 0u);
  EXPECT_EQ(TestTree::KeysOf(tree.OnlyLeaf(), 0), head);
  EXPECT_EQ(tree.Get(hot), absent);
}

// From the overflow subnode to a free slot of the head, with the switch alone.
TEST(GroupUpdateTest, MovesItsPairToTheHead) {
  for (const bool moves : {true, false}) {
    TestTree tree(KeyFormat::kFixed64, {{"item_movement", moves ? "1" : "0"}});
    for (uint64_t i = 1; i <= 16; ++i) ASSERT_EQ(tree.Put(Text(2 * i), Text(i)), Outcome::kOk);
    const std::vector<uint64_t> overflow = TestTree::KeysOf(tree.OnlyLeaf(), 1);
    ASSERT_EQ(overflow.size(), 14u);
    const std::string key = Text(overflow[2]);
    const std::string absent = Text(999'999);
    const Effect effect = tree.EffectOf([&] {
      EXPECT_EQ(tree.Write({{.kind = WriteKind::kPut, .key = key, .value = absent},
                            {.kind = WriteKind::kDelete, .key = absent}}),
                Outcome::kOk);
    });
    EXPECT_EQ(effect["moved_items_total"], moves ? 1u : 0u);
    EXPECT_EQ(TestTree::KeysOf(tree.OnlyLeaf(), 1).size(), moves ? 13u : 14u);
    EXPECT_EQ(tree.Get(key), absent);
  }
}

}  // namespace
}  // namespace lodgekv::sstree
