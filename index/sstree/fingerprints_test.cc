// Fingerprints in DRAM and delegated ones: they name the slots that a search compares.
#include <gtest/gtest.h>

#include <bit>
#include <cstdio>

#include "index/sstree/open_tree_test_util.h"

namespace lodgekv::sstree {
namespace {

using C = Fixed64Codec;

constexpr uint64_t kKeys = 20'000;

// Slots that a search for a key compares, on average, if the key is absent.
struct Compared {
  double in_head;
  double in_overflow;
};
Compared ComparedIn(const TestEngine::Options& options) {
  OpenTree tree(options);
  for (uint64_t i = 0; i < kKeys; ++i) tree.Write(RandomWord(i));
  uint64_t in_head = 0;
  uint64_t in_overflow = 0;
  uint64_t overflows = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const C::Key key = C::KeyOfWord(RandomWord(kKeys + i));
    const Leaf& leaf = tree.LeafOf(key.word);
    in_head += static_cast<uint64_t>(std::popcount(tree.search().HeadCandidates(leaf, key)));
    if (!leaf.place.more()) continue;
    ++overflows;
    const uint32_t slots = SlotsOf(tree.state().ValidOf(leaf), 1);
    in_overflow += static_cast<uint64_t>(
        std::popcount(tree.search().OverflowCandidates(*tree.state().HeadOf(leaf), slots, key)));
  }
  return {static_cast<double>(in_head) / kKeys,
          static_cast<double>(in_overflow) / static_cast<double>(overflows)};
}

// One in 256 of some ten pairs has the fingerprint of a key that is not there.
TEST(FingerprintsTest, NameTheSlotsToCompare) {
  const Compared with = ComparedIn({});
  std::printf("slots compared for an absent key: %.3f of the head, %.3f of an overflow subnode\n",
              with.in_head, with.in_overflow);
  EXPECT_LE(with.in_head, 0.06);
  EXPECT_LE(with.in_overflow, 0.06);
  EXPECT_GE(ComparedIn({{"head_fingerprints", "0"}}).in_head, 5);
  EXPECT_GE(ComparedIn({{"delegated_fingerprints", "0"}}).in_overflow, 5);
}

TEST(FingerprintsTest, NameTheSlotOfAKeyThatIsThere) {
  OpenTree tree(TestEngine::Options{});
  for (uint64_t i = 0; i < kKeys; ++i) tree.Write(RandomWord(i));
  for (uint64_t i = 0; i < kKeys; ++i) {
    const C::Key key = C::KeyOfWord(RandomWord(i));
    const Leaf& leaf = tree.LeafOf(key.word);
    const Place place = tree.search().FindPlace(leaf, key);
    ASSERT_TRUE(place.found());
    if (place.in_head()) {
      EXPECT_NE(tree.search().HeadCandidates(leaf, key) >> place.bit & 1, 0u);
    }
  }
}

}  // namespace
}  // namespace lodgekv::sstree
