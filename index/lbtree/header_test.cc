// Headers: the search of fingerprints against what each slot has, the parity bit, and where the
// headers of a leaf are.
#include <gtest/gtest.h>

#include <random>

#include "index/lbtree/distributed_header.h"
#include "index/lbtree/fingerprints.h"

namespace lodgekv::lbtree {
namespace {

Header RandomHeader(std::mt19937_64& random) {
  Header header{};
  for (unsigned slot = 0; slot < kBlockSlots; ++slot) {
    // Few values, so that several slots have the same.
    header.Set(slot, static_cast<uint8_t>(random() % 4 * 85));
  }
  header.Clear(static_cast<uint32_t>(random() & media::kBitmapMask));
  if (random() % 2 == 0) header.FlipAlt();
  return header;
}

TEST(FingerprintsTest, TheSearchFindsTheSlotsThatHaveIt) {
  std::mt19937_64 random(1);
  unsigned found = 0;
  for (int round = 0; round < 2000; ++round) {
    const Header header = RandomHeader(random);
    for (unsigned fingerprint = 0; fingerprint < 256; ++fingerprint) {
      const auto wanted = static_cast<uint8_t>(fingerprint);
      uint32_t have = 0;
      for (unsigned slot = 0; slot < kBlockSlots; ++slot) {
        have |= static_cast<uint32_t>(header.FingerprintAt(slot) == wanted) << slot;
      }
      ASSERT_EQ(MatchFingerprints(header.words, wanted), have) << round << " " << fingerprint;
      found += static_cast<unsigned>(std::popcount(have));
    }
  }
  EXPECT_GT(found, 10000u);
}

TEST(HeaderTest, SettingASlotLeavesTheOthersAlone) {
  Header header{};
  for (unsigned slot = 0; slot < kBlockSlots; ++slot) {
    header.Set(slot, static_cast<uint8_t>(0x11 * slot + 1));
    EXPECT_EQ(header.slots(), (2u << slot) - 1);
    for (unsigned i = 0; i <= slot; ++i) EXPECT_EQ(header.FingerprintAt(i), 0x11 * i + 1);
  }
  header.FlipAlt();
  header.Clear(0x5);
  EXPECT_TRUE(header.alt());
  EXPECT_EQ(header.slots(), media::kBitmapMask & ~uint64_t{0x5});
}

TEST(HeaderTest, EveryFlippedBitOfTheCommitWordIsFound) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 100; ++round) {
    Header header = RandomHeader(random);
    ASSERT_TRUE(header.IsSound());
    for (unsigned bit = 0; bit < 64; ++bit) {
      Header flipped = header;
      flipped.words[0] ^= uint64_t{1} << bit;
      EXPECT_FALSE(flipped.IsSound()) << bit;
    }
  }
  EXPECT_TRUE(Header{}.IsSound()) << "an empty leaf is all zero";
}

TEST(HeaderTest, TheFirstBlockHasItsHeaderInFrontTheOthersWhereAltSays) {
  media::Block leaf[2];
  EXPECT_EQ(HeaderWords(leaf, 0, false), leaf[0].header);
  EXPECT_EQ(HeaderWords(leaf, 0, true), leaf[0].header);
  EXPECT_EQ(HeaderWords(leaf, 1, false), leaf[1].header);
  EXPECT_EQ(HeaderWords(leaf, 1, true), leaf[1].tail);
  EXPECT_EQ(HeaderLine(0, true), 0u);
  EXPECT_EQ(HeaderLine(1, false), 0u);
  EXPECT_EQ(HeaderLine(1, true), 3u);
}

}  // namespace
}  // namespace lodgekv::lbtree
