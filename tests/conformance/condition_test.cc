// Every condition, in each state of a key, for put and delete.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kNow = 1'700'000'000'000;

enum class KeyState { kNever, kDeleted, kExpired, kLive };

class ConditionTest : public ConformanceTest {
 protected:
  // Brings key 1 into `state` and returns the version of its live value.
  uint64_t Prepare(KeyState state) {
    const std::string key = Key(1);
    const std::string value = Value(1);
    if (state == KeyState::kNever) return 0;
    WriteOp op = PutOp(key, value);
    if (state == KeyState::kExpired) op.expiry_unix_ms = kNow;
    const WriteResult put = Apply(engine(), op, kNow - 10);
    EXPECT_EQ(put.outcome, Outcome::kOk);
    if (state == KeyState::kDeleted) {
      EXPECT_TRUE(Delete(engine(), key).found);
    }
    return state == KeyState::kLive ? put.version : 0;
  }

  void ExpectApplied(KeyState state, WriteKind kind, Condition condition, uint64_t if_version,
                     bool expected) {
    SCOPED_TRACE(::testing::Message()
                 << "state " << static_cast<int>(state) << ", kind " << static_cast<int>(kind)
                 << ", condition " << static_cast<int>(condition));
    const std::string key = Key(1);
    const std::string value = Value(2);
    static_cast<void>(Delete(engine(), key));
    const uint64_t live_version = Prepare(state);
    const bool live = state == KeyState::kLive;
    WriteOp op = kind == WriteKind::kPut ? PutOp(key, value, condition) : DeleteOp(key, condition);
    op.if_version = if_version != 0 ? if_version : live_version;
    const WriteResult result = Apply(engine(), op, kNow);
    EXPECT_EQ(result.found, live);
    const ReadResult read = Get(engine(), key, kNow);
    if (!expected) {
      EXPECT_EQ(result.outcome, Outcome::kConditionFailed);
      EXPECT_EQ(result.version, live_version);
      EXPECT_EQ(read.found, live);
      EXPECT_EQ(read.version, live_version);
      if (live) {
        EXPECT_EQ(read.value, Value(1));
      }
      return;
    }
    EXPECT_EQ(result.outcome, Outcome::kOk);
    EXPECT_EQ(read.found, kind == WriteKind::kPut);
    EXPECT_EQ(result.version, read.version);
    if (kind == WriteKind::kPut) {
      EXPECT_EQ(read.value, value);
    }
  }

  void ExpectAllStates(WriteKind kind, Condition condition, bool when_live, bool when_not) {
    ExpectApplied(KeyState::kNever, kind, condition, 0, when_not);
    ExpectApplied(KeyState::kDeleted, kind, condition, 0, when_not);
    ExpectApplied(KeyState::kLive, kind, condition, 0, when_live);
    if (has_versions()) ExpectApplied(KeyState::kExpired, kind, condition, 0, when_not);
  }
};

// With versions if the key format has them, and without.
class VersionTest : public ConditionTest {};
class NoVersionTest : public ConditionTest {};

TEST_P(ConditionTest, PutIfAbsent) {
  ExpectAllStates(WriteKind::kPut, Condition::kIfAbsent, /*when_live=*/false, /*when_not=*/true);
}

TEST_P(ConditionTest, PutIfPresent) {
  ExpectAllStates(WriteKind::kPut, Condition::kIfPresent, /*when_live=*/true, /*when_not=*/false);
}

TEST_P(ConditionTest, DeleteWithoutConditionTellsWhatWasThere) {
  ExpectAllStates(WriteKind::kDelete, Condition::kNone, /*when_live=*/true, /*when_not=*/true);
}

TEST_P(ConditionTest, DeleteIfPresent) {
  ExpectAllStates(WriteKind::kDelete, Condition::kIfPresent, /*when_live=*/true,
                  /*when_not=*/false);
}

TEST_P(ConditionTest, DeleteIfAbsent) {
  ExpectAllStates(WriteKind::kDelete, Condition::kIfAbsent, /*when_live=*/false,
                  /*when_not=*/true);
}

TEST_P(VersionTest, VersionsNeverRepeatForAKey) {
  std::set<uint64_t> versions;
  for (int i = 0; i < 300; ++i) {
    const WriteResult put = Put(engine(), Key(1), Value(static_cast<uint64_t>(i % 3)));
    ASSERT_TRUE(versions.insert(put.version).second) << put.version << " came twice";
    EXPECT_EQ(Get(engine(), Key(1)).version, put.version);
    EXPECT_EQ(ScanAll(engine()).at(0).version, put.version);
    if (i % 5 == 4) {
      ASSERT_TRUE(Delete(engine(), Key(1)).found);
    }
  }
}

TEST_P(VersionTest, IfVersionHoldsForTheLiveVersionOnly) {
  for (const WriteKind kind : {WriteKind::kPut, WriteKind::kDelete}) {
    ExpectApplied(KeyState::kLive, kind, Condition::kIfVersion, 0, true);
    ExpectApplied(KeyState::kLive, kind, Condition::kIfVersion, uint64_t{1} << 51, false);
    for (const KeyState state : {KeyState::kNever, KeyState::kDeleted, KeyState::kExpired}) {
      ExpectApplied(state, kind, Condition::kIfVersion, 1, false);
    }
  }
}

TEST_P(VersionTest, IfVersionOfAnEarlierValueFails) {
  const std::string key = Key(1);
  const std::string old_value = Value(1);
  const std::string new_value = Value(2);
  const uint64_t old_version = Put(engine(), key, old_value).version;
  const uint64_t version = Put(engine(), key, old_value).version;
  const WriteResult result =
      Apply(engine(), PutOp(key, new_value, Condition::kIfVersion, old_version));
  EXPECT_EQ(result.outcome, Outcome::kConditionFailed);
  EXPECT_TRUE(result.found);
  EXPECT_EQ(result.version, version);
  ExpectValue(key, old_value);
}

TEST_P(NoVersionTest, IfVersionIsRefused) {
  const std::string key = Key(1);
  const std::string value = Value(1);
  ASSERT_EQ(Put(engine(), key, value).outcome, Outcome::kOk);
  const std::string other = Value(2);
  EXPECT_EQ(Apply(engine(), PutOp(key, other, Condition::kIfVersion, 1)).outcome,
            Outcome::kInvalidArgument);
  EXPECT_EQ(Apply(engine(), DeleteOp(key, Condition::kIfVersion, 1)).outcome,
            Outcome::kInvalidArgument);
  ExpectValue(key, value);
}

TEST_P(ConditionTest, IfVersionZeroIsNoVersion) {
  const std::string key = Key(1);
  const std::string value = Value(1);
  EXPECT_EQ(Apply(engine(), PutOp(key, value, Condition::kIfVersion, 0)).outcome,
            Outcome::kInvalidArgument);
  EXPECT_EQ(Apply(engine(), DeleteOp(key, Condition::kIfVersion, 0)).outcome,
            Outcome::kInvalidArgument);
  EXPECT_EQ(engine().CountKeys(), 0u);
}

TEST_P(ConditionTest, ConditionsHoldOverManyKeys) {
  const uint64_t keys = Scaled(2'000);
  PutRange(0, keys);
  for (uint64_t number = 0; number < keys * 2; ++number) {
    const std::string key = Key(number);
    const std::string value = Value(number + keys);
    const bool there = number < keys;
    const WriteResult absent = Apply(engine(), PutOp(key, value, Condition::kIfAbsent));
    ASSERT_EQ(absent.outcome, there ? Outcome::kConditionFailed : Outcome::kOk) << number;
    ASSERT_EQ(absent.found, there) << number;
    const WriteResult present = Apply(engine(), PutOp(key, value, Condition::kIfPresent));
    ASSERT_EQ(present.outcome, Outcome::kOk) << number;
    ASSERT_TRUE(present.found) << number;
  }
  EXPECT_EQ(engine().CountKeys(), keys * 2);
}

INSTANTIATE_TEST_SUITE_P(Engines, ConditionTest, ::testing::ValuesIn(StoringCases()),
                         EngineCaseName());

INSTANTIATE_TEST_SUITE_P(Engines, VersionTest, ::testing::ValuesIn(VersionedCases()),
                         EngineCaseName());
INSTANTIATE_TEST_SUITE_P(Engines, NoVersionTest, ::testing::ValuesIn(UnversionedCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
