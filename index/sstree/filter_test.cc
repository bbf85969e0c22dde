// The filter of each leaf in DRAM, as writes leave it.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "index/sstree/leaf_search.h"
#include "index/sstree/sstree_test_util.h"
#include "index/sstree/writes.h"

namespace lodgekv::sstree {
namespace {

using C = Fixed64Codec;

constexpr uint64_t kKeys = 60'000;

// A tree without its engine, so that its leaves in DRAM can be looked at.
class OpenTree {
 public:
  explicit OpenTree(const TestEngine::Options& options) : arena_(uint64_t{64} << 20) {
    arena_.options().chunk_bytes = uint64_t{64} << 10;
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = KeyFormat::kFixed64;
    pool_ = arena_.Create(identity);
    context_.pool = pool_.get();
    context_.key_format = KeyFormat::kFixed64;
    context_.options = *OptionValues::Parse(GetEngineInfo().options, options);
    tree_ = std::make_unique<TreeState<C>>(context_);
    writer_ = std::make_unique<PairWriter<C>>(*tree_);
    const TreeState<C>::Inner::Child child{C::MinusInfinity(), tree_->leaves.New()};
    tree_->inner.Build({&child, 1});
  }
  ~OpenTree() { tree_->background.Stop(); }

  void Write(uint64_t key, bool remove = false) {
    const std::string text = Text(key);
    WriteResult result;
    const WriteOp op{
        .kind = remove ? WriteKind::kDelete : WriteKind::kPut, .key = text, .value = text};
    ASSERT_EQ((PointWrites<C, PairWriter<C>>::Write(*writer_, op, &result, {})), Outcome::kOk);
  }
  const Leaf& LeafOf(uint64_t key) const {
    uint64_t snapshot;
    return *tree_->inner.Descend(C::KeyOfWord(key), &snapshot);
  }
  const LeafSearch<C> search() const { return LeafSearch<C>(*tree_); }

 private:
  pmem::TestArena arena_;
  std::unique_ptr<pmem::Pool> pool_;
  EngineContext context_;
  std::unique_ptr<TreeState<C>> tree_;
  std::unique_ptr<PairWriter<C>> writer_;
};

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
