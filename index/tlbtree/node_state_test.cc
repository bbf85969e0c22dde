#include "index/tlbtree/node_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace lodgekv::tlbtree {
namespace {

void ExpectSame(const NodeState& state, const std::vector<unsigned>& order) {
  ASSERT_EQ(state.count(), order.size());
  uint32_t slots = 0;
  for (unsigned i = 0; i < order.size(); ++i) {
    EXPECT_EQ(state.SlotAt(i), order[i]);
    slots |= 1u << order[i];
  }
  EXPECT_EQ(state.Slots(), slots);
  for (unsigned slot = 0; slot < NodeState::kPlaces; ++slot) {
    EXPECT_EQ(state.Has(slot), (slots >> slot & 1) != 0);
  }
  EXPECT_TRUE(NodeState(state.word()).IsSound());
}

TEST(NodeStateTest, FollowsAListOfSlots) {
  std::mt19937 random(1);
  NodeState state;
  std::vector<unsigned> order;
  bool alt = false;
  for (int i = 0; i < 20'000; ++i) {
    const unsigned choice = random() % 9;
    if (choice < 4 && order.size() < NodeState::kPlaces) {
      unsigned slot = random() % NodeState::kPlaces;
      while (std::ranges::count(order, slot) != 0) slot = (slot + 1) % NodeState::kPlaces;
      const auto place = static_cast<unsigned>(random() % (order.size() + 1));
      state.Insert(place, slot);
      order.insert(order.begin() + place, slot);
    } else if (choice < 6 && !order.empty()) {
      const auto place = static_cast<unsigned>(random() % order.size());
      state.Remove(place);
      order.erase(order.begin() + place);
    } else if (choice == 8 && !order.empty() && order.size() < NodeState::kPlaces) {
      unsigned slot = random() % NodeState::kPlaces;
      while (std::ranges::count(order, slot) != 0) slot = (slot + 1) % NodeState::kPlaces;
      unsigned& moved = order[random() % order.size()];
      state.Move(moved, slot);
      moved = slot;
    } else if (choice == 6) {
      const auto count = static_cast<unsigned>(random() % (order.size() + 1));
      state.Truncate(count);
      order.resize(count);
    } else {
      state.FlipAlt();
      alt = !alt;
    }
    ExpectSame(state, order);
    EXPECT_EQ(state.alt(), alt ? 1u : 0u);
  }
}

TEST(NodeStateTest, SlotsInARowAreInOrder) {
  for (const unsigned slots : {4u, 12u, NodeState::kPlaces}) {
    for (unsigned first = 0; first < slots; ++first) {
      std::vector<unsigned> order;
      for (unsigned count = 0; count <= slots; order.push_back((first + count++) % slots)) {
        ExpectSame(NodeState::Ascending(first, count, slots), order);
      }
    }
  }
}

TEST(NodeStateTest, AnyFlippedBitIsNoticed) {
  NodeState state;
  for (unsigned slot = 0; slot < NodeState::kPlaces; ++slot) {
    state.Insert(slot / 2, slot);
    for (unsigned bit = 0; bit < 64; ++bit) {
      EXPECT_FALSE(NodeState(state.word() ^ uint64_t{1} << bit).IsSound()) << bit;
    }
  }
}

TEST(NodeStateTest, WordsThatWereNeverWrittenAreNotSound) {
  EXPECT_FALSE(NodeState(0).IsSound());
  EXPECT_FALSE(NodeState(~uint64_t{0}).IsSound());
}

}  // namespace
}  // namespace lodgekv::tlbtree
