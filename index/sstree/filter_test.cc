// The filter of each leaf in DRAM, as writes leave it.
#include <gtest/gtest.h>

#include "index/sstree/open_tree_test_util.h"

namespace lodgekv::sstree {
namespace {

using C = Fixed64Codec;

constexpr uint64_t kKeys = 60'000;

class FilterTest : public ::testing::TestWithParam<unsigned> {};

// Share of the searches for absent keys that read an overflow subnode.
double PassedShare(const OpenTree& tree) {
  uint64_t passed = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const uint64_t key = RandomWord((uint64_t{1} << 40) + i);
    passed += tree.search().MayOverflow(tree.LeafOf(key), C::KeyOfWord(key)) ? 1 : 0;
  }
  return static_cast<double>(passed) / kKeys;
}

// Most searches for absent keys end in DRAM (SSTree III-B): filters forget pairs that have gone.
TEST_P(FilterTest, FewSearchesForAbsentKeysReadOverflowSubnodes) {
  constexpr double kMost[] = {0.09, 0.25, 0.40};  // N = 2, 3, 4
  const double most = kMost[GetParam() - 2];
  OpenTree tree({{"subnodes", std::to_string(GetParam())}});
  for (uint64_t i = 0; i < kKeys; ++i) tree.Write(RandomWord(i));
  EXPECT_LE(PassedShare(tree), most) << "after a load";
  for (uint64_t i = 0; i < kKeys; ++i) {
    tree.Write(RandomWord(i), /*remove=*/true);
    tree.Write(RandomWord(i + kKeys));
  }
  EXPECT_LE(PassedShare(tree), most) << "after as many deletes and inserts";
}

INSTANTIATE_TEST_SUITE_P(N, FilterTest, ::testing::Range(2u, kMaxSubnodes + 1));

}  // namespace
}  // namespace lodgekv::sstree
