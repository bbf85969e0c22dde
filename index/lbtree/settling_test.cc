// What recovery leaves to a first touch and to the background (node/rest_of_recovery.h).
#include <algorithm>
#include <bit>
#include <vector>

#include "index/lbtree/lbtree_test_util.h"
#include "index/node/settling_test_util.h"

namespace lodgekv::lbtree {
namespace {

struct Subject {
  using Tree = TestTree;
  static constexpr uint64_t kKeys = 20'000;
  static auto LeavesOf(Tree& tree) { return tree.Leaves(); }
  static std::vector<uint64_t> KeysOf(const media::Block* leaf) {
    std::vector<uint64_t> keys;
    for (uint32_t slots = TestTree::SlotsOf(leaf, 0); slots != 0; slots &= slots - 1) {
      keys.push_back(SlotPair(leaf[0], static_cast<unsigned>(std::countr_zero(slots))).key);
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(LbTree, SettlingTest, Subject);
INSTANTIATE_TYPED_TEST_SUITE_P(LbTree, TakenOverRangeTest, Subject);

}  // namespace
}  // namespace lodgekv::lbtree
