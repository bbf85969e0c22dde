#include "client/lodgectl/bench/keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace lodgekv::lodgectl {
namespace {

TEST(BenchKeysTest, AreOfTheirLengthAndUnderThePrefix) {
  for (const size_t bytes : {size_t{16}, size_t{20}, size_t{31}, size_t{32}, size_t{4'096}}) {
    const std::string key = BenchKeys(false, bytes)(12'345);
    EXPECT_EQ(key.size(), bytes);
    EXPECT_EQ(key.substr(0, kBenchPrefix.size()), kBenchPrefix);
  }
  const std::string fixed = BenchKeys(true, kFixed64Bytes)(12'345);
  EXPECT_EQ(fixed.size(), 8);
  EXPECT_EQ(fixed.substr(0, 4), "\xff\xff\xff\xfe");
}

TEST(BenchKeysTest, AllNumbersHaveKeysOfTheirOwn) {
  const BenchKeys keys(false, kBenchPrefix.size() + 3);
  ASSERT_EQ(keys.most_keys(), 4'096);
  std::set<std::string> all;
  for (uint64_t number = 0; number < keys.most_keys(); ++number) all.insert(keys(number));
  EXPECT_EQ(all.size(), 4'096);
  EXPECT_EQ(keys(0), keys(4'096));
  EXPECT_EQ(BenchKeys(true, kFixed64Bytes).most_keys(), uint64_t{1} << 32);
  EXPECT_EQ(BenchKeys(false, 32).most_keys(), 0);
}

TEST(BenchKeysTest, NeighboursAreScattered) {
  for (const BenchKeys& keys : {BenchKeys(false, 32), BenchKeys(false, 20), BenchKeys(true, 8)}) {
    std::set<std::string> first;
    for (uint64_t number = 0; number < 100; ++number) first.insert(keys(number));
    // In the order of their numbers they would begin alike.
    const size_t digit = keys.prefix().size();
    EXPECT_NE((*first.begin())[digit], (*first.rbegin())[digit]);
  }
}

}  // namespace
}  // namespace lodgekv::lodgectl
