#include "bench/engine_bench/key_space.h"

#include <gtest/gtest.h>

#include <set>
#include <unordered_set>

namespace lodgekv::bench {
namespace {

constexpr uint64_t kSeed = 42;
constexpr uint64_t kKeys = 200'000;

// The share of `numbers` in the hot range of numbers of 64 bits.
template <class Numbers>
double HotShare(const Numbers& numbers) {
  uint64_t hot = 0;
  for (const uint64_t number : numbers) hot += (number >> 56) < KeyNumbers::kHotRanges ? 1 : 0;
  return static_cast<double>(hot) / static_cast<double>(numbers.size());
}

std::vector<uint64_t> NumbersOf(Distribution distribution, uint64_t count) {
  const KeyNumbers numbers = KeyNumbers::Full(kSeed);
  std::vector<uint64_t> result;
  for (uint64_t i = 0; i < count; ++i) result.push_back(numbers.Number({i, distribution, false}));
  return result;
}

TEST(KeyNumbersTest, DifferWhateverInsertedThem) {
  for (const KeyNumbers& numbers : {KeyNumbers::Full(kSeed), KeyNumbers::Dense(kSeed, 4 * kKeys)}) {
    std::unordered_set<uint64_t> seen;
    uint64_t index = 0;
    for (const Distribution distribution : {Distribution::kUniform, Distribution::kSkewed,
                                            Distribution::kSequential, Distribution::kBurst}) {
      for (uint64_t i = 0; i < kKeys; ++i)
        seen.insert(numbers.Number({index++, distribution, false}));
    }
    EXPECT_EQ(seen.size(), 4 * kKeys);
    for (uint64_t i = 0; i < 4 * kKeys; ++i) {
      for (const Distribution d : {Distribution::kUniform, Distribution::kSkewed,
                                   Distribution::kSequential, Distribution::kBurst}) {
        ASSERT_FALSE(seen.contains(numbers.Number({i, d, true}))) << "absent key " << i;
      }
    }
  }
}

TEST(KeyNumbersTest, UniformOnesSpreadEvenly) {
  const std::vector<uint64_t> numbers = NumbersOf(Distribution::kUniform, kKeys);
  std::vector<int> counts(16);
  for (const uint64_t number : numbers) ++counts[number >> 60];
  for (const int count : counts) EXPECT_NEAR(count, kKeys / 16.0, kKeys / 16.0 * 0.05);
  EXPECT_NEAR(HotShare(numbers), 51.0 / 256, 0.01);
}

TEST(KeyNumbersTest, FourFifthsOfSkewedOnesAreInAFifthOfTheSpace) {
  EXPECT_NEAR(HotShare(NumbersOf(Distribution::kSkewed, kKeys)), 0.8, 0.01);
}

TEST(KeyNumbersTest, SequentialOnesAscend) {
  const std::vector<uint64_t> numbers = NumbersOf(Distribution::kSequential, 1000);
  for (size_t i = 1; i < numbers.size(); ++i) ASSERT_LT(numbers[i - 1], numbers[i]);
}

TEST(KeyNumbersTest, ABurstLiesInOneRangeAndTheNextInAnother) {
  constexpr uint64_t kBursts = 40;
  const std::vector<uint64_t> numbers =
      NumbersOf(Distribution::kBurst, kBursts * KeyNumbers::kBurstKeys);
  std::set<uint64_t> ranges;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint64_t range = numbers[i] >> 56;
    ASSERT_EQ(range, numbers[i - i % KeyNumbers::kBurstKeys] >> 56) << i;
    ranges.insert(range);
  }
  EXPECT_GT(ranges.size(), kBursts * 3 / 4);
}

TEST(KeyNumbersTest, DenseOnesHaveSixteenDigits) {
  const KeyNumbers numbers = KeyNumbers::Dense(kSeed, uint64_t{1} << 42);
  const uint64_t largest =
      numbers.Number({(uint64_t{1} << 42) - 1, Distribution::kSequential, true});
  EXPECT_LT(largest, 10'000'000'000'000'000ULL);
}

TEST(KeyNumbersTest, OtherSeedsGiveOtherKeys) {
  const KeyRef key{1, Distribution::kUniform, false};
  EXPECT_NE(KeyNumbers::Full(1).Number(key), KeyNumbers::Full(2).Number(key));
}

class KeySpaceTest : public testing::Test {
 protected:
  void Load(Distribution distribution, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) space_.NewKey(distribution);
    space_.Commit();
  }

  KeySpace space_{kSeed};
  KeyNumbers numbers_ = KeyNumbers::Full(kSeed);
};

TEST_F(KeySpaceTest, PicksOnlyWhatIsCommitted) {
  Load(Distribution::kUniform, 100);
  for (int i = 0; i < 10'000; ++i) {
    space_.NewKey(Distribution::kUniform);
    ASSERT_LT(space_.PickLive(Distribution::kUniform).index, 100);
  }
  EXPECT_EQ(space_.live(), 10'100);
}

TEST_F(KeySpaceTest, PicksKeysAsTheyWereInserted) {
  Load(Distribution::kUniform, 1000);
  Load(Distribution::kSequential, 1000);
  Load(Distribution::kUniform, 1000);
  for (int i = 0; i < 1000; ++i) {
    const KeyRef key = space_.PickLive(Distribution::kUniform);
    const bool sequential = key.index >= 1000 && key.index < 2000;
    ASSERT_EQ(key.distribution, sequential ? Distribution::kSequential : Distribution::kUniform);
  }
}

TEST_F(KeySpaceTest, FourFifthsOfSkewedPicksAreHot) {
  Load(Distribution::kUniform, kKeys);
  std::vector<uint64_t> picked;
  std::set<uint64_t> different;
  for (int i = 0; i < 100'000; ++i) {
    picked.push_back(numbers_.Number(space_.PickLive(Distribution::kSkewed)));
    different.insert(picked.back());
  }
  EXPECT_NEAR(HotShare(picked), 0.8, 0.01);
  EXPECT_GT(different.size(), 50'000);
}

TEST_F(KeySpaceTest, FourFifthsOfSkewedPicksAreHotAmongSequentialKeys) {
  Load(Distribution::kSequential, kKeys);
  uint64_t hot = 0;
  for (int i = 0; i < 100'000; ++i) {
    hot += space_.PickLive(Distribution::kSkewed).index < kKeys / 5 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(hot) / 100'000, 0.8, 0.01);
}

TEST_F(KeySpaceTest, SequentialPicksAscendAndComeRound) {
  Load(Distribution::kUniform, 10);
  Load(Distribution::kSequential, 3);
  for (const uint64_t index : {10, 11, 12, 10, 11}) {
    EXPECT_EQ(space_.PickLive(Distribution::kSequential).index, index);
  }
}

TEST_F(KeySpaceTest, TakesEachKeyOnceAndPicksItNoMore) {
  Load(Distribution::kUniform, 1000);
  std::set<uint64_t> taken;
  for (int i = 0; i < 900; ++i) {
    ASSERT_TRUE(taken.insert(space_.TakeLive(Distribution::kSkewed).index).second);
  }
  EXPECT_EQ(space_.live(), 100);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(taken.contains(space_.PickLive(Distribution::kUniform).index));
  }
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(taken.insert(space_.TakeLive(Distribution::kUniform).index).second);
  }
  EXPECT_EQ(space_.live(), 0);
}

TEST_F(KeySpaceTest, SkewedTakesAreHot) {
  Load(Distribution::kUniform, kKeys);
  std::vector<uint64_t> taken;
  taken.reserve(10'000);
  for (int i = 0; i < 10'000; ++i) {
    taken.push_back(numbers_.Number(space_.TakeLive(Distribution::kSkewed)));
  }
  EXPECT_NEAR(HotShare(taken), 0.8, 0.02);
}

TEST_F(KeySpaceTest, AbsentKeysAreMarkedSo) {
  Load(Distribution::kSequential, 10);
  for (const Distribution d :
       {Distribution::kUniform, Distribution::kSkewed, Distribution::kSequential}) {
    for (int i = 0; i < 100; ++i) {
      const KeyRef key = space_.PickAbsent(d);
      ASSERT_TRUE(key.absent);
      ASSERT_LT(key.index, 10);
    }
  }
}

}  // namespace
}  // namespace lodgekv::bench
