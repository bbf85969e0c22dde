// Scans by one thread: order, bounds, limits, and what the visitor may do.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace lodgekv::test {
namespace {

class ScanTest : public ConformanceTest {
 protected:
  // Fails unless a scan with these options returns the keys with these numbers in this order.
  void ExpectScan(const ScanOptions& options, const std::vector<uint64_t>& numbers) {
    std::vector<std::string> expected;
    for (const uint64_t number : numbers) expected.push_back(Key(number));
    EXPECT_EQ(ScanKeys(engine(), options), expected);
  }
};

std::vector<uint64_t> Numbers(uint64_t begin, uint64_t end, bool reverse = false) {
  std::vector<uint64_t> numbers;
  for (uint64_t number = begin; number < end; ++number) numbers.push_back(number);
  if (reverse) std::reverse(numbers.begin(), numbers.end());
  return numbers;
}

TEST_P(ScanTest, EmptyEngine) {
  const std::string key = Key(1);
  for (const bool reverse : {false, true}) {
    EXPECT_TRUE(ScanAll(engine(), {.reverse = reverse}).empty());
    EXPECT_TRUE(ScanAll(engine(), {.start = key, .reverse = reverse}).empty());
    EXPECT_TRUE(ScanAll(engine(), {.end = key, .reverse = reverse}).empty());
  }
}

TEST_P(ScanTest, WholeRangeInBothDirections) {
  const uint64_t keys = Scaled(5'000);
  for (uint64_t i = 0; i < keys; ++i) {
    const uint64_t number = i * 7'919 % keys;
    ASSERT_EQ(Put(engine(), Key(number), Value(number)).outcome, Outcome::kOk);
  }
  ExpectScan({}, Numbers(0, keys));
  ExpectScan({.reverse = true}, Numbers(0, keys, /*reverse=*/true));
}

TEST_P(ScanTest, StartIsInclusiveAndEndExclusive) {
  PutRange(0, 200);
  for (const bool reverse : {false, true}) {
    for (const uint64_t begin : {0, 1, 63, 64, 199}) {
      for (const uint64_t end : {0, 1, 64, 65, 199, 200, 250}) {
        const std::string start_key = Key(begin);
        const std::string end_key = Key(end);
        SCOPED_TRACE(::testing::Message() << begin << " to " << end << " reverse " << reverse);
        ExpectScan({.start = start_key, .end = end_key, .reverse = reverse},
                   Numbers(begin, std::min<uint64_t>(end, 200), reverse));
      }
    }
  }
}

TEST_P(ScanTest, OneBoundIsEnough) {
  PutRange(0, 100);
  const std::string key = Key(40);
  ExpectScan({.start = key}, Numbers(40, 100));
  ExpectScan({.start = key, .reverse = true}, Numbers(40, 100, true));
  ExpectScan({.end = key}, Numbers(0, 40));
  ExpectScan({.end = key, .reverse = true}, Numbers(0, 40, true));
}

TEST_P(ScanTest, BoundsNeedNotBeKeysThatExist) {
  for (uint64_t number = 0; number < 300; number += 3) {
    ASSERT_EQ(Put(engine(), Key(number), Value(number)).outcome, Outcome::kOk);
  }
  const std::string start = Key(100);
  const std::string end = Key(110);
  ExpectScan({.start = start, .end = end}, {102, 105, 108});
  ExpectScan({.start = start, .end = end, .reverse = true}, {108, 105, 102});
}

TEST_P(ScanTest, BoundsMayBeOfAnyLength) {
  PutRange(0, 300);
  const std::string cut = Key(256).substr(0, 7);
  const std::string longer = Key(256) + std::string(1, '\0');
  const auto all = ScanKeys(engine());
  const auto expect = [&](std::string_view start, std::optional<std::string_view> end) {
    std::vector<std::string> expected;
    for (const std::string& key : all) {
      if (key >= start && (!end || key < *end)) expected.push_back(key);
    }
    EXPECT_EQ(ScanKeys(engine(), {.start = start, .end = end}), expected);
    std::reverse(expected.begin(), expected.end());
    EXPECT_EQ(ScanKeys(engine(), {.start = start, .end = end, .reverse = true}), expected);
  };
  expect(cut, std::nullopt);
  expect({}, cut);
  expect(longer, std::nullopt);
  expect({}, longer);
  expect(cut, longer);
  expect({}, "");
  expect(std::string(70'000, '\xFF'), std::nullopt);
  expect({}, std::string(70'000, '\xFF'));
}

TEST_P(ScanTest, EmptyAndReversedRangesVisitNothing) {
  PutRange(0, 100);
  const std::string low = Key(10);
  const std::string high = Key(20);
  for (const bool reverse : {false, true}) {
    ExpectScan({.start = high, .end = low, .reverse = reverse}, {});
    ExpectScan({.start = low, .end = low, .reverse = reverse}, {});
    ExpectScan({.end = std::string_view(), .reverse = reverse}, {});
  }
}

TEST_P(ScanTest, LimitCutsInEitherDirection) {
  PutRange(0, 500);
  for (const uint64_t limit : {1, 2, 7, 27, 28, 29, 100, 499, 500, 501, 100'000}) {
    SCOPED_TRACE(limit);
    const uint64_t visited = std::min<uint64_t>(limit, 500);
    ExpectScan({.limit = limit}, Numbers(0, visited));
    ExpectScan({.reverse = true, .limit = limit}, Numbers(500 - visited, 500, true));
  }
  ExpectScan({.limit = 0}, Numbers(0, 500));
}

TEST_P(ScanTest, VisitorEndsTheScan) {
  PutRange(0, 300);
  for (const bool reverse : {false, true}) {
    for (const uint64_t stop_after : {1, 2, 30, 299, 300}) {
      uint64_t calls = 0;
      const Outcome outcome = engine().Scan({.reverse = reverse},
                                            [&](const ScanItem&) { return ++calls < stop_after; });
      EXPECT_EQ(outcome, Outcome::kOk);
      EXPECT_EQ(calls, stop_after);
    }
  }
}

TEST_P(ScanTest, KeysOnlyLeavesValuesEmpty) {
  PutRange(0, 100);
  const auto full = ScanAll(engine());
  const auto keys_only = ScanAll(engine(), {.keys_only = true});
  ASSERT_EQ(full.size(), 100u);
  ASSERT_EQ(keys_only.size(), 100u);
  for (size_t i = 0; i < full.size(); ++i) {
    EXPECT_EQ(keys_only[i].key, full[i].key);
    EXPECT_EQ(keys_only[i].version, full[i].version);
    EXPECT_TRUE(keys_only[i].value.empty());
    EXPECT_EQ(full[i].value, Value(i));
  }
}

TEST_P(ScanTest, ItemsCarryVersionAndExpiryAsReadsDo) {
  for (uint64_t number = 0; number < 100; ++number) {
    const std::string key = Key(number);
    const std::string value = Value(number);
    WriteOp op = PutOp(key, value);
    if (has_versions()) op.expiry_unix_ms = number % 2 * 1'000;
    ASSERT_EQ(Apply(engine(), op).outcome, Outcome::kOk);
  }
  for (const Pair& pair : ScanAll(engine())) {
    const ReadResult read = Get(engine(), pair.key);
    EXPECT_EQ(pair.version, read.version);
    EXPECT_EQ(pair.expiry_unix_ms, read.expiry_unix_ms);
    EXPECT_EQ(pair.value, read.value);
  }
}

TEST_P(ScanTest, VisitorMayCallTheEngine) {
  const uint64_t keys = Scaled(1'000);
  PutRange(0, keys);
  for (const bool reverse : {false, true}) {
    uint64_t visited = 0;
    const Outcome outcome = engine().Scan({.reverse = reverse}, [&](const ScanItem& item) {
      const std::string key(item.key);
      const std::string value(item.value);
      ++visited;
      EXPECT_TRUE(Get(engine(), key).found);
      EXPECT_EQ(Put(engine(), key, value).outcome, Outcome::kOk);
      return true;
    });
    EXPECT_EQ(outcome, Outcome::kOk);
    EXPECT_EQ(visited, keys);
  }
}

TEST_P(ScanTest, VisitorMayDeleteWhatItSees) {
  const uint64_t keys = Scaled(1'000);
  for (const bool reverse : {false, true}) {
    PutRange(0, keys);
    uint64_t visited = 0;
    const Outcome outcome = engine().Scan({.reverse = reverse}, [&](const ScanItem& item) {
      ++visited;
      EXPECT_TRUE(Delete(engine(), std::string(item.key)).found);
      return true;
    });
    EXPECT_EQ(outcome, Outcome::kOk);
    EXPECT_EQ(visited, keys);
    EXPECT_EQ(engine().CountKeys(), 0u);
  }
}

TEST_P(ScanTest, PagesByKeyGiveTheWhole) {
  PutRange(0, 500);
  std::vector<std::string> forward;
  std::string next;
  for (;;) {
    const auto page = ScanKeys(engine(), {.start = next, .limit = 7});
    if (page.empty()) break;
    forward.insert(forward.end(), page.begin(), page.end());
    next = page.back() + std::string(1, '\0');
  }
  EXPECT_EQ(forward, ScanKeys(engine()));
  std::vector<std::string> backward;
  std::optional<std::string> last;
  for (;;) {
    ScanOptions options{.reverse = true, .limit = 7};
    if (last) options.end = *last;
    const auto page = ScanKeys(engine(), options);
    if (page.empty()) break;
    backward.insert(backward.end(), page.begin(), page.end());
    last = page.back();
  }
  EXPECT_EQ(backward, ScanKeys(engine(), {.reverse = true}));
}

TEST_P(ScanTest, DeletedRangesAreLeftOut) {
  PutRange(0, 1'000);
  for (uint64_t number = 200; number < 800; ++number) {
    ASSERT_TRUE(Delete(engine(), Key(number)).found);
  }
  std::vector<uint64_t> expected = Numbers(0, 200);
  const std::vector<uint64_t> rest = Numbers(800, 1'000);
  expected.insert(expected.end(), rest.begin(), rest.end());
  ExpectScan({}, expected);
  std::reverse(expected.begin(), expected.end());
  ExpectScan({.reverse = true}, expected);
  const std::string start = Key(300);
  const std::string end = Key(700);
  ExpectScan({.start = start, .end = end}, {});
  ExpectScan({.start = start, .limit = 1}, {800});
  ExpectScan({.end = end, .reverse = true, .limit = 1}, {199});
}

INSTANTIATE_TEST_SUITE_P(Engines, ScanTest, ::testing::ValuesIn(StoringCases()), EngineCaseName());

}  // namespace
}  // namespace lodgekv::test
