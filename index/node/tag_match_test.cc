// The wide match against its scalar twin, for every number of tags.
#include "index/node/tag_match.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <memory>
#include <random>
#include <utility>

namespace lodgekv {
namespace {

using Match = uint64_t (*)(const uint8_t* tags, uint8_t tag);

struct Twins {
  Match scalar;
  Match avx2;
  Match chosen;
};

template <size_t... kWidths>
constexpr auto TwinsOf(std::index_sequence<kWidths...>) {
  return std::array<Twins, sizeof...(kWidths)>{
      {{MatchTagsScalar<kWidths + 1>, MatchTagsAvx2<kWidths + 1>, MatchTags<kWidths + 1>}...}};
}

// At i: of i + 1 tags.
constexpr auto kTwins = TwinsOf(std::make_index_sequence<kMostTags>());

TEST(MatchTagsTest, EachPositionOfEachWidth) {
  for (unsigned width = 1; width <= kMostTags; ++width) {
    const Twins& twins = kTwins[width - 1];
    for (unsigned at = 0; at < width; ++at) {
      std::array<uint8_t, kMostTags> tags{};
      tags[at] = 0x80;
      for (const Match match : {twins.scalar, twins.avx2, twins.chosen}) {
        ASSERT_EQ(match(tags.data(), 0x80), uint64_t{1} << at) << width;
        const uint64_t all = width == 64 ? UINT64_MAX : (uint64_t{1} << width) - 1;
        ASSERT_EQ(match(tags.data(), 0), all & ~(uint64_t{1} << at)) << width << " " << at;
      }
    }
  }
}

// The tags end where the memory does: AddressSanitizer says so if a byte beside them is read.
TEST(MatchTagsTest, TheTwinsAgreeAndReadNothingBeside) {
  std::mt19937_64 random(2);
  uint64_t found = 0;
  for (unsigned width = 1; width <= kMostTags; ++width) {
    const Twins& twins = kTwins[width - 1];
    for (int round = 0; round < 500; ++round) {
      const std::unique_ptr<uint8_t[]> tags(new uint8_t[width]);
      for (unsigned i = 0; i < width; ++i) tags[i] = static_cast<uint8_t>(random() % 5 * 63);
      const auto wanted = static_cast<uint8_t>(random() % 5 * 63);
      const uint64_t expected = twins.scalar(tags.get(), wanted);
      ASSERT_EQ(twins.avx2(tags.get(), wanted), expected) << width;
      ASSERT_EQ(twins.chosen(tags.get(), wanted), expected) << width;
      found += static_cast<uint64_t>(std::popcount(expected));
    }
  }
  EXPECT_GT(found, 100'000u);
}

TEST(MatchTagsTest, AnyAlignment) {
  std::mt19937_64 random(3);
  std::array<uint8_t, 2 * kMostTags> bytes;
  for (int round = 0; round < 20'000; ++round) {
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() % 3);
    const uint8_t* tags = bytes.data() + random() % kMostTags;
    const Twins& twins = kTwins[random() % kMostTags];
    ASSERT_EQ(twins.chosen(tags, 1), twins.scalar(tags, 1));
  }
}

}  // namespace
}  // namespace lodgekv
