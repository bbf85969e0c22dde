// What recovery leaves to a first touch and to the background (node/rest_of_recovery.h).
#include <string>
#include <vector>

#include "index/node/settling_test_util.h"
#include "index/sstree/sstree_test_util.h"

namespace lodgekv::sstree {
namespace {

struct Subject {
  using Tree = TestTree;
  static constexpr uint64_t kKeys = 40'000;
  static auto LeavesOf(Tree& tree) { return tree.SortedLeaves(); }
  static auto KeysOf(const ListOfSubnodes& leaf) { return TestTree::KeysOf(leaf); }
};

INSTANTIATE_TYPED_TEST_SUITE_P(SsTree, SettlingTest, Subject);
INSTANTIATE_TYPED_TEST_SUITE_P(SsTree, TakenOverRangeTest, Subject);

using SsTreeSettlingTest = SettlingTest<Subject>;

// A split may have copied the leaf's pairs from the one to its left, whose commit is perhaps not
// durable: a delete here could then be undone there.
TEST_F(SsTreeSettlingTest, ATouchSettlesTheLeafToTheLeft) {
  KillAndRecoverInPlace();
  const std::vector<ListOfSubnodes> leaves = tree_.SortedLeaves();
  const size_t i = leaves.size() / 2;
  const std::string key = Text(TestTree::KeysOf(leaves[i]).front());
  const std::string far = Text(TestTree::KeysOf(leaves[i / 2]).front());
  const auto line_count = [&](const std::string& k) {
    return LinesOf([&] { EXPECT_NE(tree_.Get(k), "none"); });
  };
  EXPECT_GE(line_count(key), (leaves[i].size() + leaves[i - 1].size()) * kSubnodeLines);
  EXPECT_GT(line_count(far), 0u);
}

}  // namespace
}  // namespace lodgekv::sstree
