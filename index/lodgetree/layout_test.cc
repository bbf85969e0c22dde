// Where new pairs go in a leaf.
#include "index/lodgetree/layout.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

namespace lodgekv::lodgetree {
namespace {

unsigned RoomOf(uint32_t free_slots, unsigned line) {
  return static_cast<unsigned>(std::popcount(free_slots & SlotsOfLine(line)));
}

// The rule, line by line.
unsigned LineByLine(uint32_t free_slots, size_t need) {
  unsigned best = 0;
  unsigned best_score = 0;
  for (unsigned line = LineOfSlot(0); line < kLeafLines; ++line) {
    const unsigned room = RoomOf(free_slots, line);
    const unsigned score = room >= need ? 2 * kLeafSlots - room : room;
    if (room == 0 || score <= best_score) continue;
    best = line;
    best_score = score;
  }
  return best;
}

TEST(LineForPairsTest, FollowsItsRuleForEverySetOfFreeSlotsOfTwoLines) {
  for (uint32_t first = 1; first < 128; ++first) {
    const uint32_t last = first << (kLeafSlots - 7);
    for (size_t need = 1; need <= 8; ++need) {
      ASSERT_EQ(LineForPairs(first, need), LineByLine(first, need)) << first;
      ASSERT_EQ(LineForPairs(last, need), LineByLine(last, need)) << last;
    }
  }
}

TEST(LineForPairsTest, FollowsItsRuleForAnyFreeSlots) {
  std::mt19937 random(1);
  for (unsigned i = 0; i < 200'000; ++i) {
    // Few, half or most of them.
    uint32_t slots = static_cast<uint32_t>(random()) & media::kBitmapMask;
    if (i % 3 == 1) slots &= static_cast<uint32_t>(random());
    if (i % 3 == 2) slots |= static_cast<uint32_t>(random()) & media::kBitmapMask;
    if (slots == 0) continue;
    const size_t need = 1 + random() % kLeafSlots;
    ASSERT_EQ(LineForPairs(slots, need), LineByLine(slots, need)) << slots << " " << need;
  }
}

}  // namespace
}  // namespace lodgekv::lodgetree
