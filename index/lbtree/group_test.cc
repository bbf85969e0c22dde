// Groups of operations: what other threads may see during a commit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "index/lbtree/lbtree_test_util.h"

namespace lodgekv::lbtree {
namespace {

TEST(GroupTest, WhatMovedIsReadWhileParentsLearnOfTheNewLeaves) {
  TestTree tree(KeyFormat::kFixed64);
  // A full leaf.
  for (uint64_t i = 10; i <= 140; i += 10) ASSERT_EQ(tree.Put(Text(i), Text(i)), Outcome::kOk);
  const std::string greatest = Text(140);  // it will be moved
  unsigned seen = 0;
  CallingTracer tracer("lbtree.group_split.4", [&] {
    EXPECT_EQ(tree.Get(greatest), greatest);
    ++seen;
  });
  tree.arena().options().tracer = &tracer;
  tree.KillAndRecover();
  tree.arena().options().tracer = nullptr;
  std::vector<std::string> keys;
  for (uint64_t i = 131; i <= 139; ++i) keys.push_back(Text(i));  // its right half, twice over
  std::vector<WriteOp> ops;
  for (const std::string& key : keys) ops.push_back({.key = key, .value = key});
  ASSERT_EQ(tree.Write(ops), Outcome::kOk);
  EXPECT_EQ(seen, 2u);
  EXPECT_EQ(tree.engine().CountKeys(), 14u + 9u);
  tree.KillAndRecover();  // without the tracer
  tree.ExpectSound();
}

}  // namespace
}  // namespace lodgekv::lbtree
