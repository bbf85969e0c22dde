// The contract of index/engine.h for one thread, without conditions, expiry and scans.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

class ContractTest : public ConformanceTest {};

TEST_P(ContractTest, NewEngineIsEmpty) {
  EXPECT_EQ(engine().CountKeys(), 0u);
  EXPECT_EQ(engine().AppliedIndex(), 0u);
  EXPECT_TRUE(ScanAll(engine()).empty());
  EXPECT_TRUE(ScanAll(engine(), {.reverse = true}).empty());
  ExpectMissing(Key(1));
}

TEST_P(ContractTest, PutIsReadBack) {
  const WriteResult put = Put(engine(), Key(1), Value(7));
  EXPECT_EQ(put.outcome, Outcome::kOk);
  const ReadResult read = Get(engine(), Key(1));
  EXPECT_EQ(read.outcome, Outcome::kOk);
  EXPECT_TRUE(read.found);
  EXPECT_EQ(read.value, Value(7));
  EXPECT_EQ(read.version, put.version);
  EXPECT_EQ(read.version != 0, has_versions());
  EXPECT_EQ(read.expiry_unix_ms, 0u);
  ExpectMissing(Key(0));
  ExpectMissing(Key(2));
}

TEST_P(ContractTest, OverwriteReplacesTheValueAndTheVersion) {
  const WriteResult first = Put(engine(), Key(1), Value(1));
  const WriteResult second = Put(engine(), Key(1), Value(2));
  EXPECT_EQ(second.outcome, Outcome::kOk);
  EXPECT_EQ(second.version != first.version, has_versions());
  ExpectValue(Key(1), Value(2));
  EXPECT_EQ(engine().CountKeys(), 1u);
}

TEST_P(ContractTest, DeleteTellsWhetherTheKeyWasThere) {
  EXPECT_FALSE(Delete(engine(), Key(1)).found);
  ASSERT_EQ(Put(engine(), Key(1), Value(1)).outcome, Outcome::kOk);
  const WriteResult deleted = Delete(engine(), Key(1));
  EXPECT_EQ(deleted.outcome, Outcome::kOk);
  EXPECT_TRUE(deleted.found);
  EXPECT_EQ(deleted.version, 0u);
  ExpectMissing(Key(1));
  const WriteResult again = Delete(engine(), Key(1));
  EXPECT_EQ(again.outcome, Outcome::kOk);
  EXPECT_FALSE(again.found);
  EXPECT_EQ(engine().CountKeys(), 0u);
}

TEST_P(ContractTest, ManyKeysInEitherOrder) {
  const uint64_t keys = Scaled(4'000);
  PutRange(0, keys);
  ExpectRange(0, keys);
  for (uint64_t number = 2 * keys; number-- > keys;) {
    ASSERT_EQ(Put(engine(), Key(number), Value(number)).outcome, Outcome::kOk);
  }
  ExpectRange(0, 2 * keys);
  ExpectSound();
}

TEST_P(ContractTest, EverythingCanBeDeletedAndPutAgain) {
  const uint64_t keys = Scaled(2'000);
  for (int round = 0; round < 3; ++round) {
    PutRange(0, keys);
    for (uint64_t i = 0; i < keys; ++i) {
      const uint64_t number = round == 0 ? i : round == 1 ? keys - 1 - i : i * 7'919 % keys;
      const WriteResult deleted = Delete(engine(), Key(number));
      ASSERT_EQ(deleted.outcome, Outcome::kOk) << number;
      ASSERT_TRUE(deleted.found) << number;
    }
    EXPECT_EQ(engine().CountKeys(), 0u);
    EXPECT_TRUE(ScanAll(engine()).empty());
    ExpectSound();
  }
}

TEST_P(ContractTest, EmptySpansAreFine) {
  EXPECT_EQ(engine().Write({}, {}, {}), Outcome::kOk);
  EXPECT_EQ(engine().Read({}, {}, {}), Outcome::kOk);
}

TEST_P(ContractTest, ReadOfManyKeysAnswersEach) {
  PutRange(0, 500);
  std::vector<std::string> keys;
  for (uint64_t number = 0; number < 1'000; ++number) keys.push_back(Key(number * 7 % 1'000));
  keys.insert(keys.end(), 3, Key(5));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<ReadResult> results(views.size());
  for (ReadResult& stale : results) {
    stale = {Outcome::kDataLoss, true, true, 99, 99, "what an earlier call left"};
  }
  EXPECT_EQ(engine().Read(views, results, {}), Outcome::kOk);
  for (size_t i = 0; i < views.size(); ++i) {
    const uint64_t number = i < 1'000 ? i * 7 % 1'000 : 5;
    ASSERT_EQ(results[i].outcome, Outcome::kOk) << number;
    ASSERT_EQ(results[i].found, number < 500) << number;
    ASSERT_EQ(results[i].version != 0, has_versions() && number < 500) << number;
    ASSERT_EQ(results[i].expiry_unix_ms, 0u) << number;
    ASSERT_FALSE(results[i].left_out) << number;
    if (number < 500) {
      ASSERT_EQ(results[i].value, Value(number));
    }
  }
}

TEST_P(ContractTest, ReadLeavesOutLongerValuesThanAsked) {
  if (GetParam().fixed64()) GTEST_SKIP() << "all values have 8 bytes";
  for (const size_t size : {8, 100, 101}) {
    ASSERT_EQ(Put(engine(), Key(size), std::string(size, 'v')).outcome, Outcome::kOk);
  }
  const std::vector<std::string> keys{Key(8), Key(100), Key(101), Key(1)};
  for (const size_t together : {1, 4}) {
    for (size_t i = 0; i < keys.size(); i += together) {
      const std::vector<std::string_view> views(keys.begin() + i, keys.begin() + i + together);
      std::vector<ReadResult> results(together);
      EXPECT_EQ(engine().Read(views, results, {.most_value_bytes = 100}), Outcome::kOk);
      for (size_t k = 0; k < together; ++k) {
        const ReadResult& result = results[k];
        EXPECT_EQ(result.found, i + k < 3) << keys[i + k];
        EXPECT_EQ(result.left_out, i + k == 2) << keys[i + k];
        EXPECT_EQ(result.version != 0, has_versions() && i + k < 3);
        if (i + k >= 2) continue;
        EXPECT_EQ(result.value.size(), i + k == 0 ? 8u : 100u);
      }
    }
  }
}

TEST_P(ContractTest, GroupAppliesEachAndAnswersEach) {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (uint64_t number = 0; number < 1'024; ++number) {
    keys.push_back(Key(number * 37 % 1'024));
    values.push_back(Value(number * 37 % 1'024));
  }
  std::vector<WriteOp> ops;
  for (size_t i = 0; i < keys.size(); ++i) ops.push_back(PutOp(keys[i], values[i]));
  std::vector<WriteResult> results(ops.size(), {Outcome::kDataLoss, true, 99});
  EXPECT_EQ(engine().Write(ops, results, {}), Outcome::kOk);
  std::set<uint64_t> versions;
  for (const WriteResult& result : results) {
    ASSERT_EQ(result.outcome, Outcome::kOk);
    ASSERT_EQ(result.version != 0, has_versions());
    versions.insert(result.version);
  }
  EXPECT_EQ(versions.size(), has_versions() ? ops.size() : 1);
  ExpectRange(0, 1'024);
}

TEST_P(ContractTest, OperationsOfAGroupOnOneKeyTakeEffectInOrder) {
  const std::string key = Key(1);
  const std::string other = Key(2);
  const std::string first = Value(1);
  const std::string second = Value(2);
  const std::string third = Value(3);
  const auto results = Group(
      engine(), {DeleteOp(key), PutOp(key, first, Condition::kIfAbsent), PutOp(other, first),
                 PutOp(key, second, Condition::kIfPresent), PutOp(key, third, Condition::kIfAbsent),
                 DeleteOp(other), DeleteOp(other), PutOp(key, third)});
  ASSERT_EQ(results.size(), 8u);
  EXPECT_FALSE(results[0].found);
  EXPECT_EQ(results[1].outcome, Outcome::kOk);
  EXPECT_EQ(results[3].outcome, Outcome::kOk);
  EXPECT_TRUE(results[3].found);
  EXPECT_EQ(results[4].outcome, Outcome::kConditionFailed);
  EXPECT_EQ(results[4].version, results[3].version);
  EXPECT_TRUE(results[5].found);
  EXPECT_FALSE(results[6].found);
  EXPECT_EQ(results[7].outcome, Outcome::kOk);
  ExpectValue(key, third);
  ExpectMissing(other);
  EXPECT_EQ(Get(engine(), key).version, results[7].version);
}

TEST_P(ContractTest, LongGroupOfOneKeyLeavesTheLast) {
  const std::string key = Key(1);
  std::vector<std::string> values;
  for (uint64_t id = 0; id < 1'024; ++id) values.push_back(Value(id));
  std::vector<WriteOp> ops;
  for (const std::string& value : values) ops.push_back(PutOp(key, value));
  const auto results = Group(engine(), ops);
  ExpectValue(key, Value(1'023));
  EXPECT_EQ(Get(engine(), key).version, results.back().version);
  EXPECT_EQ(engine().CountKeys(), 1u);
}

TEST_P(ContractTest, ArgumentsAreReadDuringTheCallOnly) {
  std::string key = Key(1);
  std::string value = Value(1);
  ASSERT_EQ(Put(engine(), key, value).outcome, Outcome::kOk);
  std::fill(key.begin(), key.end(), 'x');
  std::fill(value.begin(), value.end(), 'x');
  ExpectValue(Key(1), Value(1));
}

TEST_P(ContractTest, KeysOfWrongLengthAreRefused) {
  std::vector<std::string> wrong = {"", std::string(65'536, 'k')};
  if (fixed64()) wrong = {"", "a", "7 bytes", "nine byte", std::string(65'536, 'k')};
  for (const std::string& key : wrong) {
    SCOPED_TRACE(Show(key));
    EXPECT_EQ(Put(engine(), key, Value(1)).outcome, Outcome::kInvalidArgument);
    EXPECT_EQ(Delete(engine(), key).outcome, Outcome::kInvalidArgument);
    const ReadResult read = Get(engine(), key);
    EXPECT_EQ(read.outcome, Outcome::kInvalidArgument);
    EXPECT_FALSE(read.found);
  }
  EXPECT_EQ(engine().CountKeys(), 0u);
}

TEST_P(ContractTest, ValuesOfWrongLengthAreRefused) {
  std::vector<std::string> wrong = {std::string((size_t{16} << 20) + 1, 'v')};
  if (fixed64()) wrong = {"", "7 bytes", "nine byte"};
  for (const std::string& value : wrong) {
    SCOPED_TRACE(Show(value));
    EXPECT_EQ(Put(engine(), Key(1), value).outcome, Outcome::kInvalidArgument);
  }
  EXPECT_EQ(engine().CountKeys(), 0u);
}

TEST_P(ContractTest, ADeleteHasNoValueToBeWrong) {
  ASSERT_EQ(Put(engine(), Key(1), Value(1)).outcome, Outcome::kOk);
  const std::string key = Key(1);
  WriteOp op = DeleteOp(key);
  op.value = "ignored";
  const WriteResult deleted = Apply(engine(), op);
  EXPECT_EQ(deleted.outcome, Outcome::kOk);
  EXPECT_TRUE(deleted.found);
}

TEST_P(ContractTest, RefusedOperationOfAGroupLeavesTheOthersAlone) {
  const std::string first = Key(1);
  const std::string last = Key(2);
  const std::string value = Value(1);
  const auto results = Group(engine(), {PutOp(first, value), PutOp("", value), PutOp(last, value)});
  EXPECT_EQ(results[0].outcome, Outcome::kOk);
  EXPECT_EQ(results[1].outcome, Outcome::kInvalidArgument);
  EXPECT_EQ(results[2].outcome, Outcome::kOk);
  ExpectValue(first, value);
  ExpectValue(last, value);
  EXPECT_EQ(engine().CountKeys(), 2u);
}

TEST_P(ContractTest, RefusedKeyOfAReadLeavesTheOthersAlone) {
  ASSERT_EQ(Put(engine(), Key(1), Value(1)).outcome, Outcome::kOk);
  const std::string key = Key(1);
  const std::vector<std::string_view> keys = {"", key};
  std::vector<ReadResult> results(2);
  EXPECT_EQ(engine().Read(keys, results, {}), Outcome::kInvalidArgument);
  EXPECT_EQ(results[0].outcome, Outcome::kInvalidArgument);
  EXPECT_EQ(results[1].outcome, Outcome::kOk);
  EXPECT_EQ(results[1].value, Value(1));
}

TEST_P(ContractTest, CountersHaveNamesThatMetricsCanUse) {
  PutRange(0, 1'000);
  std::set<std::string> names;
  engine().VisitCounters([&names](const CounterSample& sample) {
    const std::string name(sample.name);
    EXPECT_TRUE(names.insert(name).second) << name << " comes twice";
    EXPECT_TRUE(std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::islower(c) || std::isdigit(c) || c == '_';
    })) << name;
    EXPECT_EQ(name.ends_with("_total"), sample.kind == CounterKind::kCounter) << name;
    EXPECT_FALSE(sample.help.empty()) << name;
    EXPECT_GE(sample.value, 0) << name;
  });
  EXPECT_FALSE(names.empty());
}

TEST_P(ContractTest, MemoryUseTellsWhereThePairsAre) {
  const uint64_t keys = 4'000;
  const MemoryUse before = engine().GetMemoryUse();
  PutRange(0, keys);
  const MemoryUse after = engine().GetMemoryUse();
  if (harness().persistent()) {
    EXPECT_GE(after.medium_bytes, before.medium_bytes + keys * 16);
    EXPECT_LE(after.medium_bytes,
              harness().pool()->allocated_bytes() + harness().pool()->reserve_bytes() + (1u << 20));
  } else {
    EXPECT_EQ(after.medium_bytes, 0u);
    EXPECT_GE(after.dram_bytes, before.dram_bytes + keys * 16);
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, ContractTest, ::testing::ValuesIn(StoringCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
