// Atomic groups: all or nothing, and the applied index with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

class AtomicTest : public ConformanceTest {
 protected:
  Outcome WriteAt(const std::vector<WriteOp>& ops, std::optional<uint64_t> applied_index) {
    WriteOptions options;
    options.atomic = true;
    options.applied_index = applied_index;
    std::vector<WriteResult> results(ops.size());
    return engine().Write(ops, results, options);
  }

  // No operation of a group is kOk, at least one has a reason, the rest is kAborted.
  static void ExpectRefused(const std::vector<WriteResult>& results, Outcome why) {
    size_t reasons = 0;
    for (const WriteResult& result : results) {
      EXPECT_TRUE(result.outcome == why || result.outcome == Outcome::kAborted) << result.outcome;
      if (result.outcome == why) ++reasons;
    }
    EXPECT_GE(reasons, 1u);
  }
};

TEST_P(AtomicTest, GroupAppliesAll) {
  PutRange(0, 3);
  const std::string keys[] = {Key(0), Key(1), Key(2), Key(3)};
  const std::string value = Value(9);
  const auto results = Atomic(engine(), {PutOp(keys[0], value), DeleteOp(keys[1]),
                                         PutOp(keys[2], value, Condition::kIfPresent),
                                         PutOp(keys[3], value, Condition::kIfAbsent)});
  for (const WriteResult& result : results) EXPECT_EQ(result.outcome, Outcome::kOk);
  EXPECT_TRUE(results[1].found);
  EXPECT_TRUE(results[2].found);
  EXPECT_FALSE(results[3].found);
  ExpectMissing(keys[1]);
  for (const size_t put : {0, 2, 3}) {
    ExpectValue(keys[put], value);
    EXPECT_EQ(results[put].version, Get(engine(), keys[put]).version);
    EXPECT_EQ(results[put].version != 0, has_versions());
  }
}

TEST_P(AtomicTest, OneFailedConditionStopsAll) {
  PutRange(0, 3);
  const std::string keys[] = {Key(0), Key(1), Key(2), Key(3)};
  const std::string value = Value(9);
  const auto results =
      Atomic(engine(), {PutOp(keys[0], value), DeleteOp(keys[1]),
                        PutOp(keys[2], value, Condition::kIfAbsent), PutOp(keys[3], value)});
  ExpectRefused(results, Outcome::kConditionFailed);
  EXPECT_EQ(results[2].outcome, Outcome::kConditionFailed);
  EXPECT_TRUE(results[2].found);
  EXPECT_EQ(results[2].version, Get(engine(), keys[2]).version);
  ExpectRange(0, 3);
}

TEST_P(AtomicTest, EachOfSeveralFailuresCanStandAnywhere) {
  const uint64_t size = 20;
  PutRange(0, size);
  std::vector<std::string> keys;
  for (uint64_t number = 0; number < size; ++number) keys.push_back(Key(number));
  const std::string value = Value(99);
  for (size_t failing = 0; failing < size; ++failing) {
    std::vector<WriteOp> ops;
    for (size_t i = 0; i < size; ++i) {
      ops.push_back(PutOp(keys[i], value, i == failing ? Condition::kIfAbsent : Condition::kNone));
    }
    const auto results = Atomic(engine(), ops);
    ExpectRefused(results, Outcome::kConditionFailed);
    EXPECT_EQ(results[failing].outcome, Outcome::kConditionFailed) << failing;
  }
  ExpectRange(0, size);
}

TEST_P(AtomicTest, KeyThatAppearsTwiceIsRefused) {
  PutRange(0, 1);
  const std::string keys[] = {Key(0), Key(1), Key(2)};
  const std::string value = Value(9);
  ExpectRefused(Atomic(engine(), {PutOp(keys[0], value), PutOp(keys[1], value),
                                  PutOp(keys[2], value), PutOp(keys[1], value)}),
                Outcome::kInvalidArgument);
  ExpectRefused(Atomic(engine(), {PutOp(keys[1], value), DeleteOp(keys[1])}),
                Outcome::kInvalidArgument);
  ExpectRange(0, 1);
}

TEST_P(AtomicTest, DuplicateIsFoundInALongGroup) {
  std::vector<std::string> keys;
  for (uint64_t number = 0; number < 1'024; ++number) keys.push_back(Key(number));
  keys[1'000] = keys[3];
  const std::string value = Value(9);
  std::vector<WriteOp> ops;
  for (const std::string& key : keys) ops.push_back(PutOp(key, value));
  ExpectRefused(Atomic(engine(), ops), Outcome::kInvalidArgument);
  EXPECT_EQ(engine().CountKeys(), 0u);
}

TEST_P(AtomicTest, InvalidOperationStopsAll) {
  const std::string key = Key(0);
  const std::string value = Value(9);
  ExpectRefused(Atomic(engine(), {PutOp(key, value), PutOp("", value)}), Outcome::kInvalidArgument);
  EXPECT_EQ(engine().CountKeys(), 0u);
}

TEST_P(AtomicTest, LargestGroupApplies) {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (uint64_t number = 0; number < 1'024; ++number) {
    keys.push_back(Key(number));
    values.push_back(Value(number));
  }
  std::vector<WriteOp> ops;
  for (size_t i = 0; i < keys.size(); ++i) ops.push_back(PutOp(keys[i], values[i]));
  std::reverse(ops.begin(), ops.end());
  for (const WriteResult& result : Atomic(engine(), ops)) {
    ASSERT_EQ(result.outcome, Outcome::kOk);
  }
  ExpectRange(0, 1'024);
  for (WriteOp& op : ops) op.kind = WriteKind::kDelete;
  for (const WriteResult& result : Atomic(engine(), ops)) {
    ASSERT_EQ(result.outcome, Outcome::kOk);
    ASSERT_TRUE(result.found);
  }
  EXPECT_EQ(engine().CountKeys(), 0u);
}

TEST_P(AtomicTest, AppliedIndexComesWithTheGroup) {
  const std::string key = Key(0);
  const std::string value = Value(1);
  EXPECT_EQ(WriteAt({PutOp(key, value)}, 41), Outcome::kOk);
  EXPECT_EQ(engine().AppliedIndex(), 41u);
  EXPECT_EQ(WriteAt({DeleteOp(key)}, std::nullopt), Outcome::kOk);
  EXPECT_EQ(engine().AppliedIndex(), 41u);
  EXPECT_EQ(WriteAt({PutOp(key, value)}, 42), Outcome::kOk);
  EXPECT_EQ(engine().AppliedIndex(), 42u);
}

TEST_P(AtomicTest, AppliedIndexOfARefusedGroupIsNotStored) {
  const std::string key = Key(0);
  const std::string value = Value(1);
  EXPECT_EQ(WriteAt({PutOp(key, value)}, 5), Outcome::kOk);
  EXPECT_EQ(WriteAt({PutOp(key, value, Condition::kIfAbsent)}, 6), Outcome::kConditionFailed);
  EXPECT_NE(WriteAt({PutOp(key, value), PutOp(key, value)}, 7), Outcome::kOk);
  EXPECT_EQ(engine().AppliedIndex(), 5u);
}

TEST_P(AtomicTest, EmptyGroupStoresItsAppliedIndex) {
  EXPECT_EQ(WriteAt({}, 12), Outcome::kOk);
  EXPECT_EQ(engine().AppliedIndex(), 12u);
}

TEST_P(AtomicTest, LargestAppliedIndexCounts) {
  EXPECT_EQ(WriteAt({}, 12), Outcome::kOk);
  EXPECT_EQ(WriteAt({}, 7), Outcome::kOk);
  EXPECT_EQ(engine().AppliedIndex(), 12u);
}

INSTANTIATE_TEST_SUITE_P(Engines, AtomicTest, ::testing::ValuesIn(StoringCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
