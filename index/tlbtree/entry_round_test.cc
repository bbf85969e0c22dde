// Entries above the new leaves of a group: all are made, once, under shared fences.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "index/node/engine_test_util.h"

namespace lodgekv::tlbtree {

const EngineInfo& GetEngineInfo();

namespace {

constexpr uint64_t kKeys = 20'000;
constexpr uint64_t kGroup = 256;

struct Shape {
  const char* name;
  KeyFormat format;
  TestEngine::Options options;
};

class EntryRoundTest : public ::testing::TestWithParam<Shape> {
 protected:
  // Keys of `bytes` have bounds with records.
  std::string Key(uint64_t i) const {
    return GetParam().format == KeyFormat::kBytes ? "a long prefix " + Text(i) : Text(i);
  }
  Effect PutGroup(uint64_t (*number)(uint64_t from, uint64_t i), uint64_t from) {
    std::vector<std::string> keys;
    for (uint64_t i = 0; i < kGroup; ++i) keys.push_back(Key(number(from, i)));
    std::vector<WriteOp> ops;
    for (const std::string& key : keys) {
      ops.push_back({.kind = WriteKind::kPut, .key = key, .value = "12345678"});
    }
    puts_ += kGroup;
    return tree_.EffectOf([&] { EXPECT_EQ(tree_.Write(ops), Outcome::kOk); });
  }
  void ExpectAllListed() {
    tree_.ExpectSound();
    EXPECT_EQ(tree_.engine().CountKeys(), puts_);
    const auto counters = tree_.Counters();
    EXPECT_EQ(counters.at("entries_made_total"), counters.at("leaf_splits_total"));
  }

  TestEngine tree_{GetEngineInfo(), GetParam().format, GetParam().options};
  uint64_t puts_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Shapes, EntryRoundTest,
    ::testing::Values(Shape{"fixed64", KeyFormat::kFixed64, {}},
                      Shape{"bytes", KeyFormat::kBytes, {}},
                      Shape{"small", KeyFormat::kBytes, {{"leaf_slots", "4"}, {"node_slots", "3"}}},
                      Shape{"height_1", KeyFormat::kFixed64, {{"height", "1"}}}),
    [](const auto& test) { return test.param.name; });

// Between others, and behind all of them.
TEST_P(EntryRoundTest, NeighboursGoToTheSameSubIndices) {
  for (uint64_t from = 0; from < kKeys; from += kGroup) {
    PutGroup([](uint64_t begin, uint64_t i) { return (begin + i) * 1'000; }, from);
  }
  for (uint64_t from = 0; from < 20; ++from) {
    PutGroup([](uint64_t n, uint64_t i) { return n * 777'000 + 1 + i; }, from);
  }
  ExpectAllListed();
}

TEST_P(EntryRoundTest, ScatteredLeavesShareFences) {
  const auto scattered = [](uint64_t from, uint64_t i) { return (from + i) * 7'919 % 1'000'003; };
  Effect all{};
  for (uint64_t from = 0; from < kKeys; from += kGroup) {
    const Effect effect = PutGroup(scattered, from);
    if (from < kKeys / 2) continue;
    all.cost = all.cost + effect.cost;
    all.counters["entries_made_total"] += effect["entries_made_total"];
  }
  ExpectAllListed();
  EXPECT_GT(all["entries_made_total"], kKeys / 40);
  EXPECT_LT(all.cost.fences, all["entries_made_total"]);
}

}  // namespace
}  // namespace lodgekv::tlbtree
