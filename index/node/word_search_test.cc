#include "index/node/word_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>

namespace lodgekv {
namespace {

constexpr uint64_t kTop = uint64_t{1} << 63;
constexpr std::array<uint64_t, 10> kBorders = {
    0, 1, kTop - 1, kTop, kTop + 1, UINT64_MAX, UINT64_MAX - 1, 0xffffffff, 0x100000000, 42};

struct alignas(64) Words {
  uint64_t at[32];
};

// Words with many ties and with the values around which signed and unsigned comparison differ.
Words RandomWords(std::mt19937_64& random) {
  Words words;
  for (uint64_t& word : words.at) {
    word = random() % 2 == 0 ? kBorders[random() % kBorders.size()] : random();
  }
  return words;
}

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq");
}

class WordSearchTest : public ::testing::TestWithParam<CompareWordsFunction> {
 protected:
  void SetUp() override {
    if (GetParam() == CompareWordsAvx512 && !HasAvx512()) {
      GTEST_SKIP() << "this processor has no AVX-512";
    }
  }
};

TEST_P(WordSearchTest, AgreesWithTheScalarTwin) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const Words words = RandomWords(random);
    for (const uint64_t word :
         {words.at[random() % 32], kBorders[random() % kBorders.size()], uint64_t{random()}}) {
      const WordMasks expected = CompareWordsScalar(words.at, word);
      const WordMasks masks = GetParam()(words.at, word);
      ASSERT_EQ(masks.less, expected.less) << word;
      ASSERT_EQ(masks.equal, expected.equal) << word;
    }
  }
}

// How many words count, and the form.
using NotAboveForm = std::pair<unsigned, NotAboveFunction>;

class NotAboveTest : public ::testing::TestWithParam<NotAboveForm> {
 protected:
  void SetUp() override {
    const NotAboveFunction form = GetParam().second;
    const bool wide = form == NotAboveAvx512<> || form == NotAboveAvx512<16>;
    if (wide && !HasAvx512()) {
      GTEST_SKIP() << "this processor has no AVX-512";
    }
  }
};

TEST_P(NotAboveTest, IsLessOrEqual) {
  const auto [count, not_above] = GetParam();
  const auto counting = static_cast<uint32_t>((uint64_t{1} << count) - 1);
  std::mt19937_64 random(6);
  for (int round = 0; round < 2000; ++round) {
    const Words words = RandomWords(random);
    for (const uint64_t word :
         {words.at[random() % 32], kBorders[random() % kBorders.size()], uint64_t{random()}}) {
      const WordMasks expected = CompareWordsScalar(words.at, word);
      ASSERT_EQ(not_above(words.at, word) & counting, (expected.less | expected.equal) & counting)
          << word;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Twins, NotAboveTest,
    ::testing::Values(NotAboveForm{32, NotAboveScalar}, NotAboveForm{32, NotAboveAvx2<>},
                      NotAboveForm{16, NotAboveAvx2<16>}, NotAboveForm{32, NotAboveAvx512<>},
                      NotAboveForm{16, NotAboveAvx512<16>}, NotAboveForm{32, NotAbove}));

INSTANTIATE_TEST_SUITE_P(Twins, WordSearchTest,
                         ::testing::Values(CompareWordsAvx2, CompareWordsAvx512, CompareWords));

TEST(CompareWordsScalarTest, EachPositionAndOrder) {
  for (unsigned i = 0; i < 32; ++i) {
    Words words;
    std::fill(std::begin(words.at), std::end(words.at), kTop);
    words.at[i] = kTop - 1;
    const WordMasks masks = CompareWordsScalar(words.at, kTop);
    EXPECT_EQ(masks.less, uint32_t{1} << i);
    EXPECT_EQ(masks.equal, ~(uint32_t{1} << i));
    EXPECT_EQ(CompareWordsScalar(words.at, kTop - 1).less, 0u);
    EXPECT_EQ(CompareWordsScalar(words.at, kTop - 1).equal, uint32_t{1} << i);
  }
}

}  // namespace
}  // namespace lodgekv
