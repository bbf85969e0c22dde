#include "index/node/checked_word.h"

#include <gtest/gtest.h>

namespace lodgekv {
namespace {

TEST(CheckedWordTest, GivesTheValueBack) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{4096}, kCheckedMask}) {
    uint64_t read;
    EXPECT_TRUE(ReadChecked(CheckedWord(value), &read));
    EXPECT_EQ(read, value);
  }
  EXPECT_EQ(CheckedWord(0), 0u);
}

TEST(CheckedWordTest, FindsEveryFlippedBitAndPairOfNeighbours) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{30}, uint64_t{0x123456789abcd}}) {
    for (unsigned bit = 0; bit < 64; ++bit) {
      uint64_t read;
      EXPECT_FALSE(ReadChecked(CheckedWord(value) ^ uint64_t{1} << bit, &read)) << bit;
      EXPECT_FALSE(ReadChecked(CheckedWord(value) ^ uint64_t{3} << bit, &read)) << bit;
    }
  }
}

TEST(CheckedWordTest, TwoWordsAreCoveredToTheLastBit) {
  const uint64_t check = CheckBitsOf(0x0123456789abcdef, 0xfedcba9876543210);
  for (unsigned bit = 0; bit < 64; ++bit) {
    EXPECT_NE(CheckBitsOf(0x0123456789abcdef ^ uint64_t{1} << bit, 0xfedcba9876543210), check);
    EXPECT_NE(CheckBitsOf(0x0123456789abcdef, 0xfedcba9876543210 ^ uint64_t{1} << bit), check);
  }
}

}  // namespace
}  // namespace lodgekv
