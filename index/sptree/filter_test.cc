// The Bloom filters of leaves: they never miss a key, and they let few absent ones through.
#include <gtest/gtest.h>

#include <cstdio>

#include "index/node/open_tree_test_util.h"
#include "index/sptree/leaf_image.h"
#include "index/sptree/leaf_search.h"
#include "index/sptree/sptree_test_util.h"
#include "index/sptree/writes.h"

namespace lodgekv::sptree {
namespace {

using C = Fixed64Codec;

constexpr uint64_t kKeys = 60'000;

TEST(BloomFilterTest, AFullLeafLetsOneAbsentKeyInTwentyThrough) {
  uint64_t passed = 0;
  uint64_t asked = 0;
  for (uint64_t round = 0; round < 200; ++round) {
    BloomFilter filter;
    for (uint64_t i = 0; i < kBnodeSlots; ++i) {
      filter.Add(C::KeyOfWord(RandomWord(round * 1'000 + i)).hash);
    }
    for (uint64_t i = 0; i < kBnodeSlots; ++i) {
      ASSERT_TRUE(filter.MayHold(C::KeyOfWord(RandomWord(round * 1'000 + i)).hash));
    }
    for (uint64_t i = 0; i < 500; ++i, ++asked) {
      passed += filter.MayHold(C::KeyOfWord(RandomWord((uint64_t{1} << 40) + asked)).hash) ? 1 : 0;
    }
  }
  const double share = static_cast<double>(passed) / static_cast<double>(asked);
  std::printf("false positives of full leaves: %.4f\n", share);
  EXPECT_LE(share, 0.055);
  EXPECT_GE(share, 0.01);
}

class OpenTree : public OpenTreeOf<TreeState<C>, PairWriter<C>> {
 public:
  OpenTree() : OpenTreeOf(GetEngineInfo(), {}) {
    TreeState<C>& tree = state();
    Mnode<C>* mnode = tree.mnodes.New();
    SetMnode(tree.codec, tree.BnodeAt(tree.space.Take(unused_)), 0, {}, mnode);
    tree.top.Build({&mnode, 1});
  }

  const Mnode<C>& LeafOf(uint64_t key) const {
    uint64_t snapshot;
    return *state().top.Find(C::KeyOfWord(key), &snapshot);
  }
  // Share of the searches for absent keys that read the leaf.
  double PassedShare() const {
    uint64_t passed = 0;
    for (uint64_t i = 0; i < kKeys; ++i) {
      const uint64_t key = RandomWord((uint64_t{1} << 40) + i);
      passed += LeafOf(key).filter.MayHold(C::KeyOfWord(key).hash) ? 1 : 0;
    }
    return static_cast<double>(passed) / kKeys;
  }

 private:
  LeafSpace::Spare unused_;
};

// Keys go with their splits and deletes: filters are made anew.
TEST(FilterTest, FewSearchesForAbsentKeysReadTheLeaf) {
  OpenTree tree;
  for (uint64_t i = 0; i < kKeys; ++i) tree.Write(RandomWord(i));
  const double loaded = tree.PassedShare();
  for (uint64_t i = 0; i < kKeys; ++i) {
    tree.Write(RandomWord(i), /*remove=*/true);
    tree.Write(RandomWord(i + kKeys));
  }
  const double churned = tree.PassedShare();
  std::printf("false positives: %.4f after a load, %.4f after churn\n", loaded, churned);
  EXPECT_LE(loaded, 0.05);
  EXPECT_LE(churned, 0.06);
  for (uint64_t i = kKeys; i < 2 * kKeys; ++i) {
    const uint64_t key = RandomWord(i);
    ASSERT_TRUE(tree.LeafOf(key).filter.MayHold(C::KeyOfWord(key).hash)) << i;
  }
}

}  // namespace
}  // namespace lodgekv::sptree
