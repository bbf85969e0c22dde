// How scans visit nodes and leaves: their allocations, and concurrent changes of the structure.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"
#include "tests/support/allocation_counter.h"

namespace lodgekv::lodgetree {
namespace {

constexpr unsigned kKeys = 3000;

class ScanTest : public ::testing::TestWithParam<std::tuple<KeyFormat, bool>> {
 protected:
  static KeyFormat format() { return std::get<0>(GetParam()); }
  static bool reverse() { return std::get<1>(GetParam()); }

  // Ascending; `bytes` keys tie in their first 8 bytes.
  static std::string Key(uint64_t n) {
    return format() == KeyFormat::kFixed64 ? Text(n) : "key number " + Text(n);
  }
  void PutAll(uint64_t step) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      const uint64_t n = i * 1'009 % kKeys * step;
      ASSERT_EQ(tree_.Put(Key(n), Text(n)), Outcome::kOk);
    }
  }
  // The number of the n-th key that the scan visits, of so many.
  static uint64_t Number(uint64_t place, uint64_t count) {
    return reverse() ? count - 1 - place : place;
  }
  // `keys` must ascend without duplicates, and contain those with the numbers `stay`.
  static void ExpectInOrder(std::vector<std::string> keys, const std::vector<uint64_t>& stay) {
    if (reverse()) std::reverse(keys.begin(), keys.end());
    EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end(), std::greater_equal<>()), keys.end());
    for (const uint64_t n : stay) {
      EXPECT_TRUE(std::binary_search(keys.begin(), keys.end(), Key(n))) << n << " is missing";
    }
  }
  // Returns the scan's keys; calls `visit` with the position after each.
  template <class Visit>
  std::vector<std::string> Scan(const ScanOptions& options, Visit visit) {
    std::vector<std::string> keys;
    const auto visitor = [&](const ScanItem& item) {
      keys.emplace_back(item.key);
      visit(keys.size() - 1);
      return true;
    };
    EXPECT_EQ(tree_.engine().Scan(options, visitor), Outcome::kOk);
    return keys;
  }

  TestTree tree_{format(), {{"node_slots", "12"}}};
};

TEST_P(ScanTest, ScansOfAHundredAllocateNothing) {
  PutAll(1);
  const std::string start = Key(kKeys / 3);
  const std::string end = Key(kKeys * 2 / 3);
  const auto scan = [&] {
    uint64_t items = 0;
    const auto count = [&](const ScanItem&) { return ++items != 0; };
    const ScanOptions options{.start = start, .end = end, .reverse = reverse(), .limit = 100};
    EXPECT_EQ(tree_.engine().Scan(options, count), Outcome::kOk);
    EXPECT_EQ(items, 100u);
  };
  scan();
  const uint64_t before = ThreadAllocations();
  for (int i = 0; i < 10; ++i) scan();
  EXPECT_EQ(ThreadAllocations(), before);
}

// The visitor puts keys at and ahead of the scan: leaves and nodes split under it.
TEST_P(ScanTest, KeysThatStayAreSeenOnceWhileTheTreeGrows) {
  PutAll(4);
  const auto grow = [&](size_t place) {
    if (place % 3 != 0) return;
    for (const uint64_t ahead : {0, 1, 40, 700}) {
      const uint64_t n = Number(std::min<uint64_t>(place + ahead, kKeys - 1), kKeys);
      ASSERT_EQ(tree_.Put(Key(n * 4 + 1 + ahead % 3), Text(n)), Outcome::kOk);
    }
  };
  std::vector<uint64_t> stay;
  for (uint64_t i = 0; i < kKeys; ++i) stay.push_back(i * 4);
  ExpectInOrder(Scan({.reverse = reverse()}, grow), stay);
  EXPECT_GT(tree_.Counters()["node_splits_total"], 0u);
  tree_.ExpectSound();
}

// The visitor deletes most keys behind and ahead of the scan: leaves are removed under it.
TEST_P(ScanTest, KeysThatStayAreSeenOnceWhileTheTreeShrinks) {
  PutAll(1);
  std::vector<uint64_t> stay;
  for (uint64_t n = 0; n < kKeys; n += 50) stay.push_back(n);
  const auto shrink = [&](size_t place) {
    if (place != 100) return;
    for (uint64_t n = 0; n < kKeys; ++n) {
      if (n % 50 == 0) continue;
      ASSERT_EQ(tree_.Delete(Key(n)), Outcome::kOk);
    }
  };
  ExpectInOrder(Scan({.reverse = reverse()}, shrink), stay);
  tree_.ExpectSound();
}

// The range is larger than a page, and page borders are inside leaves.
TEST_P(ScanTest, PagesFollowOneAnother) {
  if (format() == KeyFormat::kFixed64) GTEST_SKIP() << "nothing is copied to pages";
  constexpr uint64_t kLong = 400;
  std::vector<uint64_t> stay;
  for (uint64_t n = 0; n < kLong; ++n) {
    ASSERT_EQ(tree_.Put(Key(n), std::string(9'000 + n, 'v')), Outcome::kOk);
    if (n % 2 == 0) stay.push_back(n);
  }
  const auto shrink = [&](size_t place) {
    const uint64_t n = Number(std::min(place + 5, kLong - 1), kLong);
    if (n % 2 == 0) return;
    ASSERT_EQ(tree_.Delete(Key(n)), Outcome::kOk);
  };
  const std::vector<std::string> keys = Scan({.reverse = reverse()}, shrink);
  ExpectInOrder(keys, stay);
  EXPECT_LT(keys.size(), kLong) << "what was deleted before its page was still seen";
  EXPECT_EQ(Scan({.reverse = reverse(), .limit = 150}, [](size_t) {}).size(), 150u);
}

INSTANTIATE_TEST_SUITE_P(Formats, ScanTest,
                         ::testing::Combine(::testing::Values(KeyFormat::kFixed64,
                                                              KeyFormat::kBytes),
                                            ::testing::Bool()),
                         [](const auto& parameters) {
                           const bool fixed = std::get<0>(parameters.param) == KeyFormat::kFixed64;
                           return std::string(fixed ? "Fixed64" : "Bytes") +
                                  (std::get<1>(parameters.param) ? "Reverse" : "Forward");
                         });

// A damaged key has no place in the order of its leaf.
class DamagedScanTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kKeys = 60;

  DamagedScanTest() {
    for (uint64_t n = 0; n < kKeys; ++n) EXPECT_EQ(tree_.Put(Key(n), "old"), Outcome::kOk);
    EXPECT_TRUE(tree_.engine().Close().ok());  // drains the buffers; the engine can still be used
    const media::Leaf* leaf = tree_.Leaves()[1];
    for (uint64_t left = leaf->commit.Load() & media::kBitmapMask; left != 0; left &= left - 1) {
      const auto slot = static_cast<unsigned>(std::countr_zero(left));
      const pmem::Offset record = BytesCodec::RecordOf(leaf->slots[slot].value.Load());
      keys_.push_back(ViewRecord(tree_.pool(), record).key);
    }
  }

  static std::string Key(uint64_t n) { return "account/" + std::to_string(100'000 + n); }
  // In the part that all keys share. Twice: back again.
  static void Flip(std::string_view key, char bits = 0x40) { const_cast<char&>(key[9]) ^= bits; }
  // A scan ends at the damage; until then it must not see `key` with another value, "": at all.
  void ExpectNothingElse(std::string_view key, std::string_view value) {
    for (const bool reverse : {false, true}) {
      (void)tree_.engine().Scan({.reverse = reverse}, [&](const ScanItem& item) {
        EXPECT_EQ(item.key == key ? item.value : value, value);
        return true;
      });
    }
  }
  void ExpectNothingElseBesideDamage(std::string_view key, std::string_view value) {
    for (const std::string_view other : keys_) {
      if (other == key) continue;
      Flip(other);
      ExpectNothingElse(key, value);
      Flip(other);
    }
  }

  TestTree tree_{KeyFormat::kBytes};
  std::vector<std::string_view> keys_;  // of one leaf, in their records
};

TEST_F(DamagedScanTest, ABufferedPutReplacesWhatTheLeafHas) {
  ASSERT_GT(keys_.size(), 5u);
  for (unsigned i = 0; i < 5; ++i) {
    const std::string text(keys_[i]);
    ASSERT_EQ(tree_.Put(text, "new"), Outcome::kOk);
    ExpectNothingElseBesideDamage(text, "new");
  }
}

TEST_F(DamagedScanTest, APutOverADamagedPairHasItsOwnPlace) {
  ASSERT_GT(keys_.size(), 5u);
  for (unsigned i = 0; i < 5; ++i) {
    const std::string text(keys_[i]);
    // Where the keys differ: below and above all others.
    const_cast<char&>(keys_[i][12]) ^= i % 2 == 0 ? 0x20 : 0x40;
    ASSERT_EQ(tree_.Put(text, "new"), Outcome::kOk);
    for (const bool reverse : {false, true}) {
      std::vector<std::string> seen;
      const auto visit = [&](const ScanItem& item) { return seen.emplace_back(item.key), true; };
      EXPECT_EQ(tree_.engine().Scan({.reverse = reverse}, visit), Outcome::kOk);
      if (reverse) std::reverse(seen.begin(), seen.end());
      EXPECT_EQ(seen.size(), kKeys);
      EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    }
  }
}

// A key that reads too small or too large is no end of the range for others.
TEST_F(DamagedScanTest, ARangeEndsWhereItShould) {
  std::vector<std::string> sorted(keys_.begin(), keys_.end());
  std::sort(sorted.begin(), sorted.end());
  const std::string& start = sorted[sorted.size() / 3];
  const std::string& end = sorted[sorted.size() * 2 / 3];
  for (const std::string_view damaged : keys_) {
    for (const char bits : {0x20, 0x40}) {
      Flip(damaged, bits);
      for (const bool reverse : {false, true}) {
        const ScanOptions options{.start = start, .end = end, .reverse = reverse};
        (void)tree_.engine().Scan(options, [&](const ScanItem& item) {
          EXPECT_TRUE(item.key >= start && item.key < end) << item.key;
          return true;
        });
      }
      Flip(damaged, bits);
    }
  }
}

TEST_F(DamagedScanTest, ABufferedDeleteHidesWhatTheLeafHas) {
  ASSERT_GT(keys_.size(), 5u);
  for (unsigned i = 0; i < 5; ++i) {
    const std::string text(keys_[i]);
    ASSERT_EQ(tree_.Delete(text), Outcome::kOk);
    ExpectNothingElseBesideDamage(text, "");
  }
}

}  // namespace
}  // namespace lodgekv::lodgetree
