// Rebuilds of the top layer that come to nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "index/tlbtree/tlbtree_test_util.h"

namespace lodgekv::tlbtree {
namespace {

class FullPoolTest : public ::testing::Test {
 protected:
  uint64_t Count(std::string_view name) { return tree_.Counters().find(name)->second; }
  void Fill() {
    while (tree_.Put(Text(RandomWord(keys_.size())), Text(7)) == Outcome::kOk) {
      keys_.push_back(RandomWord(keys_.size()));
    }
    std::sort(keys_.begin(), keys_.end());
  }
  // Most, in order: so sub-indices die.
  void DeleteMost() {
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (i % 8 == 7) continue;
      ASSERT_EQ(tree_.Delete(Text(keys_[i])), Outcome::kOk);
    }
  }

  TestEngine tree_{
      GetEngineInfo(), KeyFormat::kFixed64, {{"leaf_slots", "4"}, {"node_slots", "3"}}};
  std::vector<uint64_t> keys_;
};

// Dead anchors ask for a rebuild: one that finds no room must not be begun again at once.
TEST_F(FullPoolTest, ARebuildIsNotTriedAgainAndAgain) {
  Fill();
  FixedState(tree_).background.WaitUntilIdle();
  const uint64_t tasks = Count("background_tasks_total");
  DeleteMost();
  FixedState(tree_).background.WaitUntilIdle();
  EXPECT_LT(Count("background_tasks_total") - tasks, 60u);
  tree_.ExpectSound();
}

class DamagedAnchorTest : public ::testing::Test {
 protected:
  uint64_t Tasks() {
    FixedState(tree_).background.WaitUntilIdle();
    return tree_.Counters().find("background_tasks_total")->second;
  }
  // By its low key, without the bits that check it.
  void DamageLastAnchor() {
    auto& state = FixedState(tree_);
    media::Anchor* last = state.AnchorAt(state.first_anchor());
    while (AnchorView::Of(*last).next != 0) last = state.AnchorAt(AnchorView::Of(*last).next);
    reinterpret_cast<uint64_t&>(last->low) ^= 1;
  }

  // Without gaps a new sub-index is reached sideways until the top layer is built anew.
  TestEngine tree_{GetEngineInfo(),
                   KeyFormat::kFixed64,
                   {{"leaf_slots", "4"}, {"node_slots", "3"}, {"gaps", "0"}}};
};

// Each walks the anchors up to the damage, so it must not be begun again at each write.
TEST_F(DamagedAnchorTest, ARebuildIsNotTriedAgainAndAgain) {
  constexpr uint64_t kKeys = 40'000;  // a small tree is examined before it is opened
  for (uint64_t i = 0; i < kKeys; ++i)
    ASSERT_EQ(tree_.Put(Text(RandomWord(i)), Text(1)), Outcome::kOk);
  DamageLastAnchor();
  tree_.KillAndRecover();
  const uint64_t before = Tasks();
  for (uint64_t i = 0; i < kKeys / 2; ++i) {
    (void)tree_.Put(Text(RandomWord(i)), Text(2));
    FixedState(tree_).background.WaitUntilIdle();
  }
  EXPECT_LT(Tasks() - before, 60u);
}

}  // namespace
}  // namespace lodgekv::tlbtree
