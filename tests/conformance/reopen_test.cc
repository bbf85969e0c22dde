// Persistent engines over restarts: after a clean close and after a kill.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kNow = 1'700'000'000'000;

class ReopenTest : public ConformanceTest {
 protected:
  HarnessOptions Options() const override {
    return {.memory_bytes = uint64_t{16} << 20, .chunk_bytes = uint64_t{32} << 10};
  }

  void Reopen(bool clean) {
    const absl::Status status = clean ? harness().CloseAndReopen() : harness().KillAndReopen();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(harness().recovery().clean, clean);
    EXPECT_EQ(harness().recovery().keys, engine().CountKeys());
    EXPECT_GE(harness().recovery().threads, 1u);
    ExpectSound();
  }
};

// Where the key format has versions and expiry.
class ReopenVersionTest : public ReopenTest {};

TEST_P(ReopenTest, EmptyEngine) {
  for (const bool clean : {true, false, true}) {
    Reopen(clean);
    EXPECT_EQ(engine().CountKeys(), 0u);
    EXPECT_EQ(engine().AppliedIndex(), 0u);
  }
  PutRange(0, 10);
  ExpectRange(0, 10);
}

TEST_P(ReopenTest, EveryFewPuts) {
  uint64_t keys = 0;
  for (uint64_t step = 0; step < 60; ++step) {
    PutRange(keys, keys + step);
    keys += step;
    Reopen(step % 3 == 0);
    ExpectRange(0, keys);
  }
}

TEST_P(ReopenTest, TwiceWithoutAWriteBetween) {
  const uint64_t keys = Scaled(3'000);
  PutRange(0, keys);
  for (const bool clean : {false, false, true, true, false}) {
    Reopen(clean);
    ExpectRange(0, keys);
  }
}

TEST_P(ReopenTest, OverwritesAndDeletesStay) {
  const uint64_t keys = Scaled(2'000);
  for (const bool clean : {false, true}) {
    for (uint64_t number = 0; number < keys; ++number) {
      ASSERT_EQ(Put(engine(), Key(number), Value(number + keys)).outcome, Outcome::kOk);
    }
    PutRange(0, keys / 2);
    for (uint64_t number = keys / 2; number < keys; ++number) {
      ASSERT_TRUE(Delete(engine(), Key(number)).found);
    }
    Reopen(clean);
    ExpectRange(0, keys / 2);
    Reopen(!clean);
    ExpectRange(0, keys / 2);
  }
}

TEST_P(ReopenTest, AllDeleted) {
  const uint64_t keys = Scaled(1'000);
  for (const bool clean : {false, true}) {
    PutRange(0, keys);
    for (uint64_t number = 0; number < keys; ++number) {
      ASSERT_TRUE(Delete(engine(), Key(number)).found);
    }
    Reopen(clean);
    EXPECT_EQ(engine().CountKeys(), 0u);
    EXPECT_TRUE(ScanAll(engine()).empty());
  }
}

TEST_P(ReopenTest, RecoveryOnSeveralThreadsGivesTheSame) {
  const uint64_t keys = Scaled(20'000);
  PutRange(0, keys);
  for (const unsigned threads : {1, 2, 3, 8}) {
    harness().set_recovery_threads(threads);
    Reopen(/*clean=*/false);
    ExpectRange(0, keys);
    Reopen(/*clean=*/true);
    ExpectRange(0, keys);
  }
}

TEST_P(ReopenTest, GroupsAndAppliedIndexStay) {
  for (uint64_t round = 0; round < 20; ++round) {
    std::vector<std::string> keys;
    std::vector<std::string> values;
    for (uint64_t number = round * 50; number < (round + 1) * 50; ++number) {
      keys.push_back(Key(number));
      values.push_back(Value(number));
    }
    std::vector<WriteOp> ops;
    for (size_t i = 0; i < keys.size(); ++i) ops.push_back(PutOp(keys[i], values[i]));
    WriteOptions options;
    options.atomic = true;
    options.applied_index = round + 1;
    for (const WriteResult& result : Group(engine(), ops, options)) {
      ASSERT_EQ(result.outcome, Outcome::kOk);
    }
    Reopen(round % 2 == 1);
    EXPECT_EQ(engine().AppliedIndex(), round + 1);
    ExpectRange(0, (round + 1) * 50);
  }
}

TEST_P(ReopenVersionTest, VersionsStayAndNeverRepeat) {
  std::set<uint64_t> versions;
  for (int round = 0; round < 30; ++round) {
    uint64_t last = 0;
    for (int put = 0; put < 10; ++put) {
      last = Put(engine(), Key(1), Value(1)).version;
      ASSERT_TRUE(versions.insert(last).second) << last << " came twice";
    }
    Reopen(round % 2 == 1);
    EXPECT_EQ(Get(engine(), Key(1)).version, last);
    if (round % 3 == 0) {
      ASSERT_TRUE(Delete(engine(), Key(1)).found);
      Reopen(round % 2 == 0);
    }
  }
}

TEST_P(ReopenVersionTest, ExpiryStays) {
  for (uint64_t number = 0; number < 200; ++number) {
    const std::string key = Key(number);
    const std::string value = Value(number);
    WriteOp op = PutOp(key, value);
    op.expiry_unix_ms = kNow + number;
    ASSERT_EQ(Apply(engine(), op).outcome, Outcome::kOk);
  }
  for (const bool clean : {false, true}) {
    Reopen(clean);
    EXPECT_EQ(ScanAll(engine(), {.now_unix_ms = kNow + 99}).size(), 100u);
    EXPECT_EQ(Get(engine(), Key(150), kNow).expiry_unix_ms, kNow + 150);
    EXPECT_FALSE(Get(engine(), Key(150), kNow + 150).found);
  }
}

TEST_P(ReopenTest, SpaceIsFoundAgainAtEachRestart) {
  const uint64_t keys = Scaled(2'000);
  uint64_t after_first = 0;
  for (int round = 0; round < 12; ++round) {
    PutRange(0, keys);
    for (uint64_t number = 0; number < keys; ++number) {
      ASSERT_TRUE(Delete(engine(), Key(number)).found);
    }
    Reopen(round % 2 == 0);
    const uint64_t allocated = harness().pool()->allocated_bytes();
    if (round == 1) after_first = allocated;
    if (round > 1) {
      EXPECT_LE(allocated, after_first * 5 / 4 + 4 * harness().pool()->chunk_bytes())
          << "round " << round;
    }
  }
}

std::vector<EngineCase> PersistentVersionedCases() {
  std::vector<EngineCase> cases = PersistentCases();
  std::erase_if(cases, [](const EngineCase& engine_case) { return !engine_case.has_versions(); });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Engines, ReopenTest, ::testing::ValuesIn(PersistentCases()),
                         EngineCaseName());
INSTANTIATE_TEST_SUITE_P(Engines, ReopenVersionTest,
                         ::testing::ValuesIn(PersistentVersionedCases()), EngineCaseName());
// A build may have volatile engines only.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReopenTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReopenVersionTest);

}  // namespace
}  // namespace lodgekv::test
