// The Bloom filters of leaves: they never miss a key, and they let few absent ones through.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

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

// A tree without its engine, so that its Mnodes can be looked at.
class OpenTree {
 public:
  OpenTree() : arena_(uint64_t{64} << 20) {
    arena_.options().chunk_bytes = uint64_t{64} << 10;
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = KeyFormat::kFixed64;
    pool_ = arena_.Create(identity);
    context_.pool = pool_.get();
    context_.key_format = KeyFormat::kFixed64;
    context_.options = *OptionValues::Parse(GetEngineInfo().options, {});
    tree_ = std::make_unique<TreeState<C>>(context_);
    writer_ = std::make_unique<PairWriter<C>>(*tree_);
    Mnode<C>* mnode = tree_->mnodes.New();
    SetMnode(tree_->codec, tree_->BnodeAt(tree_->space.Take(unused_)), 0, {}, mnode);
    tree_->top.Build({&mnode, 1});
  }
  ~OpenTree() { tree_->background.Stop(); }

  void Write(uint64_t key, bool remove = false) {
    const std::string text = Text(key);
    WriteResult result;
    const WriteOp op{
        .kind = remove ? WriteKind::kDelete : WriteKind::kPut, .key = text, .value = text};
    ASSERT_EQ((PointWrites<C, PairWriter<C>>::Write(*writer_, op, &result, {})), Outcome::kOk);
  }
  const Mnode<C>& LeafOf(uint64_t key) const {
    uint64_t snapshot;
    return *tree_->top.Find(C::KeyOfWord(key), &snapshot);
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
  pmem::TestArena arena_;
  std::unique_ptr<pmem::Pool> pool_;
  EngineContext context_;
  LeafSpace::Spare unused_;
  std::unique_ptr<TreeState<C>> tree_;
  std::unique_ptr<PairWriter<C>> writer_;
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
