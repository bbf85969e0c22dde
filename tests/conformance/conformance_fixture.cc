#include "tests/conformance/conformance_fixture.h"

#include <utility>

namespace lodgekv::test {

void ConformanceTest::SetUp() {
  auto harness = EngineHarness::Create(GetParam(), Options());
  if (GetParam().inline_pairs && absl::IsUnimplemented(harness.status())) {
    GTEST_SKIP() << harness.status();
  }
  ASSERT_TRUE(harness.ok()) << harness.status();
  harness_ = *std::move(harness);
}

void ConformanceTest::TearDown() {
  if (harness_ == nullptr) return;
  ExpectSound();
  const absl::Status closed = engine().Close();
  EXPECT_TRUE(closed.ok()) << closed;
}

void ConformanceTest::PutRange(uint64_t begin, uint64_t end) {
  for (uint64_t number = begin; number < end; ++number) {
    ASSERT_EQ(Put(engine(), Key(number), Value(number)).outcome, Outcome::kOk) << number;
  }
}

void ConformanceTest::ExpectRange(uint64_t begin, uint64_t end) {
  uint64_t number = begin;
  for (const Pair& pair : ScanAll(engine())) {
    ASSERT_EQ(pair.key, Key(number)) << "scan, number " << number;
    ASSERT_EQ(pair.value, Value(number)) << "scan, number " << number;
    ++number;
  }
  EXPECT_EQ(number, end) << "the scan ended before or after the last key";
  for (number = begin; number < end; ++number) {
    const ReadResult read = Get(engine(), Key(number));
    ASSERT_EQ(read.outcome, Outcome::kOk) << number;
    ASSERT_TRUE(read.found) << number;
    ASSERT_EQ(read.value, Value(number)) << number;
  }
  EXPECT_EQ(engine().CountKeys(), end - begin);
}

void ConformanceTest::ExpectValue(std::string_view key, std::string_view value) {
  const ReadResult read = Get(engine(), key);
  EXPECT_EQ(read.outcome, Outcome::kOk) << Show(key);
  ASSERT_TRUE(read.found) << Show(key);
  EXPECT_TRUE(read.value == value)
      << Show(key) << " has " << Show(read.value) << ", not " << Show(value);
}

void ConformanceTest::ExpectMissing(std::string_view key) {
  const ReadResult read = Get(engine(), key);
  EXPECT_EQ(read.outcome, Outcome::kOk) << Show(key);
  EXPECT_FALSE(read.found) << Show(key) << " has " << Show(read.value);
}

void ConformanceTest::ExpectSound() {
  const CheckReport report = engine().Check();
  EXPECT_EQ(report.problem_count, 0u);
  for (const std::string& problem : report.problems) ADD_FAILURE() << "Check: " << problem;
  EXPECT_EQ(report.keys, engine().CountKeys());
}

}  // namespace lodgekv::test
