// Rebuilds of the top layer that find no room.
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

}  // namespace
}  // namespace lodgekv::tlbtree
