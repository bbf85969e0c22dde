// Groups of operations: what other threads may see during a commit, and that no pass loses or
// reorders an operation.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "index/engine_info.h"
#include "index/lbtree/lbtree_test_util.h"
#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv::lbtree {
namespace {

TEST(GroupTest, WhatMovedIsReadWhileParentsLearnOfTheNewLeaves) {
  std::unique_ptr<Engine> engine;
  unsigned seen = 0;
  const std::string text = Text(140);  // the largest key
  const std::string_view greatest = text;
  CallingTracer tracer("lbtree.group_split.4", [&] {
    ReadResult result;
    EXPECT_EQ(engine->Read({&greatest, 1}, {&result, 1}, {}), Outcome::kOk);
    EXPECT_TRUE(result.found);
    ++seen;
  });
  pmem::TestArena arena(uint64_t{4} << 20);
  arena.options().chunk_bytes = uint64_t{64} << 10;
  arena.options().tracer = &tracer;
  pmem::PoolIdentity identity = pmem::TestArena::Identity();
  identity.key_format = KeyFormat::kFixed64;
  const auto pool = arena.Create(identity);
  EngineContext context;
  context.pool = pool.get();
  context.key_format = KeyFormat::kFixed64;
  context.options = *OptionValues::Parse(GetEngineInfo().options, {});
  engine = *GetEngineInfo().create(context);
  std::vector<std::string> keys;
  for (uint64_t i = 10; i <= 140; i += 10) keys.push_back(Text(i));  // a full leaf
  for (uint64_t i = 131; i <= 139; ++i) keys.push_back(Text(i));     // its right half, twice over
  std::vector<WriteOp> ops;
  for (const std::string& key : keys) ops.push_back({.key = key, .value = key});
  std::vector<WriteResult> results(ops.size());
  const auto write = [&](size_t from, size_t count) {
    return engine->Write(std::span(ops).subspan(from, count), std::span(results).first(count), {});
  };
  for (size_t i = 0; i < 14; ++i) ASSERT_EQ(write(i, 1), Outcome::kOk);
  ASSERT_EQ(write(14, 9), Outcome::kOk);
  EXPECT_EQ(seen, 2u);
  EXPECT_EQ(engine->CountKeys(), keys.size());
  EXPECT_EQ(engine->Check().problem_count, 0u);
  engine.reset();  // before its pool
}

struct Shape {
  KeyFormat format;
  bool inline_pairs;
  unsigned blocks;
  unsigned slots;
};

class RandomGroupsTest : public ::testing::TestWithParam<Shape> {};

// Few keys, so that a group has several operations on one key, and leaves fill, split and become
// empty.
TEST_P(RandomGroupsTest, LeaveWhatTheOperationsInTheirOrderLeave) {
  const Shape& shape = GetParam();
  TestTree tree(
      shape.format,
      {{"leaf_blocks", std::to_string(shape.blocks)}, {"leaf_slots", std::to_string(shape.slots)}},
      shape.inline_pairs);
  std::map<std::string, std::string> model;
  std::mt19937_64 random(20260717);
  for (unsigned round = 0; round < 300; ++round) {
    const bool atomic = random() % 3 == 0;
    const unsigned deletes = round / 20 % 2 == 0 ? 15 : 75;
    std::vector<std::string> keys;
    const size_t size = 1 + random() % 90;
    while (keys.size() < size) {
      std::string key = Scattered(random() % 400);
      if (!atomic || std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
    }
    std::vector<std::string> values;
    for (size_t i = 0; i < size; ++i) values.push_back(Text(random() >> 2));
    std::vector<WriteOp> ops;
    std::vector<bool> found;
    for (size_t i = 0; i < size; ++i) {
      const bool remove = random() % 100 < deletes;
      ops.push_back({.kind = remove ? WriteKind::kDelete : WriteKind::kPut,
                     .key = keys[i],
                     .value = values[i]});
      found.push_back(model.contains(keys[i]));
      if (remove) {
        model.erase(keys[i]);
      } else {
        model[keys[i]] = values[i];
      }
    }
    std::vector<WriteResult> results(size);
    WriteOptions options;
    options.atomic = atomic;
    ASSERT_EQ(tree.engine().Write(ops, results, options), Outcome::kOk);
    for (size_t i = 0; i < size; ++i) {
      if (ops[i].kind == WriteKind::kPut) continue;
      ASSERT_EQ(results[i].found, found[i]);
    }
    for (const std::string& key : keys) {
      const auto at = model.find(key);
      ASSERT_EQ(tree.Get(key), at == model.end() ? "none" : at->second);
    }
    ASSERT_EQ(tree.engine().CountKeys(), model.size());
    tree.ExpectSound();
    if (round % 50 == 49) tree.KillAndRecover();
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RandomGroupsTest,
                         ::testing::Values(Shape{KeyFormat::kFixed64, false, 1, 14},
                                           Shape{KeyFormat::kFixed64, false, 1, 4},
                                           Shape{KeyFormat::kFixed64, false, 3, 5},
                                           Shape{KeyFormat::kBytes, false, 1, 6},
                                           Shape{KeyFormat::kBytes, false, 2, 14},
                                           Shape{KeyFormat::kBytes, true, 4, 4}));

}  // namespace
}  // namespace lodgekv::lbtree
