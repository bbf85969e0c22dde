#include "index/node/pair_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace lodgekv {
namespace {

// Keys that are alike in their first words, as long ones may be, differ in what `value` stands for.
struct ComparesValues {
  static bool Less(Pair a, Pair b) { return a.key != b.key ? a.key < b.key : a.value < b.value; }
};

std::vector<uint8_t> OrderOf(const std::vector<Pair>& pairs) {
  std::vector<uint8_t> order(pairs.size());
  OrderPairs(
      ComparesValues(), static_cast<unsigned>(pairs.size()), [&](unsigned i) { return pairs[i]; },
      order.data());
  return order;
}

void ExpectOrdered(const std::vector<Pair>& pairs) {
  const std::vector<uint8_t> order = OrderOf(pairs);
  std::vector<uint8_t> numbers = order;
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 0; i < pairs.size(); ++i) ASSERT_EQ(numbers[i], i);
  for (size_t i = 1; i < pairs.size(); ++i) {
    ASSERT_TRUE(ComparesValues::Less(pairs[order[i - 1]], pairs[order[i]])) << i;
  }
}

TEST(PairOrderTest, PairsOfAnyNumberAreOrderedByTheirWords) {
  std::mt19937_64 random(1);
  for (unsigned count = 0; count <= kMostOrdered; ++count) {
    std::vector<Pair> pairs(count);
    for (Pair& pair : pairs) pair = {random(), random()};
    ExpectOrdered(pairs);
  }
}

TEST(PairOrderTest, TheLeastAndTheGreatestWordsAreInTheirPlaces) {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  const std::vector<Pair> pairs = {{UINT64_MAX, 0}, {kTop, 0}, {0, 0}, {kTop - 1, 0},
                                   {UINT64_MAX - 1, 0}, {1, 0}, {kTop + 1, 0}};
  ExpectOrdered(pairs);
  EXPECT_EQ(OrderOf(pairs), (std::vector<uint8_t>{2, 5, 3, 1, 6, 4, 0}));
}

TEST(PairOrderTest, PairsWithEqualWordsAreOrderedByWholeKeys) {
  std::mt19937_64 random(1);
  for (unsigned count = 2; count <= kMostOrdered; ++count) {
    std::vector<Pair> pairs(count);
    for (unsigned i = 0; i < count; ++i) pairs[i] = {random() % 3, i};
    std::shuffle(pairs.begin(), pairs.end(), random);
    ExpectOrdered(pairs);
  }
}

TEST(PairOrderTest, EntriesAreCopiedInOrder) {
  struct Entry {
    Pair pair;
    unsigned number;
  };
  const Entry entries[] = {{{5, 0}, 0}, {{2, 0}, 1}, {{9, 0}, 2}};
  Entry sorted[3];
  CopyInOrder(ComparesValues(), std::span<const Entry>(entries), sorted);
  EXPECT_EQ(sorted[0].number, 1u);
  EXPECT_EQ(sorted[1].number, 0u);
  EXPECT_EQ(sorted[2].number, 2u);
}

}  // namespace
}  // namespace lodgekv
