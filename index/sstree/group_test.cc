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

}  // namespace
}  // namespace lodgekv::sstree
