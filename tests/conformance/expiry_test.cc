// Expiry: the engine reads no clock, each call passes the time.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kNow = 1'700'000'000'000;

class ExpiryTest : public ConformanceTest {
 protected:
  WriteResult PutUntil(std::string_view key, std::string_view value, uint64_t expiry_unix_ms,
                       uint64_t now_unix_ms = kNow) {
    WriteOp op = PutOp(key, value);
    op.expiry_unix_ms = expiry_unix_ms;
    return Apply(engine(), op, now_unix_ms);
  }
};

// Where the key format has expiry.
class ExpiryWithVersionsTest : public ExpiryTest {};

TEST_P(ExpiryTest, IsRefusedWhereTheFormatHasNone) {
  const Outcome outcome = PutUntil(Key(1), Value(1), kNow + 1).outcome;
  EXPECT_EQ(outcome, has_versions() ? Outcome::kOk : Outcome::kInvalidArgument);
  EXPECT_EQ(engine().CountKeys(), has_versions() ? 1u : 0u);
}

TEST_P(ExpiryTest, NoExpiryMeansForEver) {
  ASSERT_EQ(Put(engine(), Key(1), Value(1)).outcome, Outcome::kOk);
  const ReadResult read = Get(engine(), Key(1), UINT64_MAX);
  EXPECT_TRUE(read.found);
  EXPECT_EQ(read.expiry_unix_ms, 0u);
  EXPECT_EQ(ScanAll(engine(), {.now_unix_ms = UINT64_MAX}).size(), 1u);
}

TEST_P(ExpiryWithVersionsTest, ValueIsAbsentFromItsExpiryOn) {
  const WriteResult put = PutUntil(Key(1), Value(1), kNow + 100);
  ASSERT_EQ(put.outcome, Outcome::kOk);
  const ReadResult before = Get(engine(), Key(1), kNow + 99);
  EXPECT_TRUE(before.found);
  EXPECT_EQ(before.value, Value(1));
  EXPECT_EQ(before.version, put.version);
  EXPECT_EQ(before.expiry_unix_ms, kNow + 100);
  for (const uint64_t now : {kNow + 100, kNow + 101, UINT64_MAX}) {
    const ReadResult after = Get(engine(), Key(1), now);
    EXPECT_EQ(after.outcome, Outcome::kOk);
    EXPECT_FALSE(after.found) << now;
    EXPECT_EQ(after.version, 0u) << now;
    EXPECT_EQ(after.expiry_unix_ms, 0u) << now;
  }
  EXPECT_TRUE(Get(engine(), Key(1), kNow).found) << "a clock that goes back finds it again";
}

TEST_P(ExpiryWithVersionsTest, AlreadyExpiredPutIsAppliedAndAbsent) {
  ASSERT_EQ(Put(engine(), Key(1), Value(1)).outcome, Outcome::kOk);
  EXPECT_EQ(PutUntil(Key(1), Value(2), kNow - 1).outcome, Outcome::kOk);
  EXPECT_FALSE(Get(engine(), Key(1), kNow).found);
}

TEST_P(ExpiryWithVersionsTest, OverwriteReplacesTheExpiryToo) {
  ASSERT_EQ(PutUntil(Key(1), Value(1), kNow + 100).outcome, Outcome::kOk);
  ASSERT_EQ(Put(engine(), Key(1), Value(2)).outcome, Outcome::kOk);
  const ReadResult read = Get(engine(), Key(1), kNow + 1'000);
  EXPECT_TRUE(read.found);
  EXPECT_EQ(read.expiry_unix_ms, 0u);
}

TEST_P(ExpiryWithVersionsTest, ScanLeavesExpiredKeysOutAndCountsThemNotToItsLimit) {
  for (uint64_t number = 0; number < 300; ++number) {
    const uint64_t expiry = number % 3 == 0 ? kNow + 100 : number % 3 == 1 ? kNow + 200 : 0;
    ASSERT_EQ(PutUntil(Key(number), Value(number), expiry).outcome, Outcome::kOk);
  }
  EXPECT_EQ(ScanAll(engine(), {.now_unix_ms = kNow + 99}).size(), 300u);
  for (const bool reverse : {false, true}) {
    const auto pairs =
        ScanAll(engine(), {.reverse = reverse, .limit = 150, .now_unix_ms = kNow + 100});
    ASSERT_EQ(pairs.size(), 150u);
    for (const Pair& pair : pairs) {
      const uint64_t number = IdOf(pair.value);
      ASSERT_NE(number % 3, 0u);
      ASSERT_EQ(pair.expiry_unix_ms, number % 3 == 1 ? kNow + 200 : 0);
    }
    EXPECT_EQ(ScanAll(engine(), {.reverse = reverse, .now_unix_ms = kNow + 200}).size(), 100u);
  }
  EXPECT_EQ(engine().CountKeys(), 300u) << "expired keys count until they are swept";
}

TEST_P(ExpiryWithVersionsTest, DeleteOfAnExpiredKeyFindsNothingAndRemovesIt) {
  ASSERT_EQ(PutUntil(Key(1), Value(1), kNow + 100).outcome, Outcome::kOk);
  const std::string key = Key(1);
  const WriteResult deleted = Apply(engine(), DeleteOp(key), kNow + 100);
  EXPECT_EQ(deleted.outcome, Outcome::kOk);
  EXPECT_FALSE(deleted.found);
  EXPECT_FALSE(Get(engine(), key, kNow).found);
  EXPECT_EQ(engine().CountKeys(), 0u);
}

TEST_P(ExpiryWithVersionsTest, AtomicGroupsHonourIt) {
  ASSERT_EQ(PutUntil(Key(1), Value(1), kNow + 100).outcome, Outcome::kOk);
  const std::string keys[] = {Key(1), Key(2)};
  const std::string value = Value(2);
  const std::vector<WriteOp> ops = {PutOp(keys[0], value, Condition::kIfAbsent),
                                    PutOp(keys[1], value)};
  EXPECT_EQ(Atomic(engine(), ops, kNow + 99)[0].outcome, Outcome::kConditionFailed);
  ExpectMissing(keys[1]);
  EXPECT_EQ(Atomic(engine(), ops, kNow + 100)[0].outcome, Outcome::kOk);
  ExpectValue(keys[0], value);
  ExpectValue(keys[1], value);
}

INSTANTIATE_TEST_SUITE_P(Engines, ExpiryTest, ::testing::ValuesIn(StoringCases()),
                         EngineCaseName());
INSTANTIATE_TEST_SUITE_P(Engines, ExpiryWithVersionsTest, ::testing::ValuesIn(VersionedCases()),
                         EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
