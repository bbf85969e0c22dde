// Splits of leaves with long keys in a pool that has no room for a long fence.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "index/sptree/leaf_image.h"
#include "index/sptree/sptree_test_util.h"
#include "index/sptree/writes.h"

namespace lodgekv::sptree {
namespace {

using C = BytesCodec;

constexpr size_t kPrefix = 600;

std::string LongKey(uint64_t n) { return std::string(kPrefix, 'p') + std::to_string(1000 + n); }

// A tree without its engine: one leaf, full of long keys that differ at their ends.
class FullLeafTest : public ::testing::Test {
 protected:
  FullLeafTest() : arena_(uint64_t{1} << 20) {
    arena_.options().chunk_bytes = 8192;
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = KeyFormat::kBytes;
    pool_ = arena_.Create(identity);
    context_.pool = pool_.get();
    context_.key_format = KeyFormat::kBytes;
    context_.options = *OptionValues::Parse(GetEngineInfo().options, {});
    tree_ = std::make_unique<TreeState<C>>(context_);
    writer_ = std::make_unique<PairWriter<C>>(*tree_);
    Mnode<C>* mnode = tree_->mnodes.New();
    SetMnode(tree_->codec, tree_->BnodeAt(tree_->space.Take(unused_)), 0, {}, mnode);
    mnode->low = C::MinusInfinity();
    tree_->top.Build({&mnode, 1});
    for (uint64_t i = 0; i < kBnodeSlots; ++i) Insert(LongKey(i));
  }
  ~FullLeafTest() override { tree_->background.Stop(); }

  void Insert(const std::string& key) {
    WriteResult result;
    const WriteOp op{.kind = WriteKind::kPut, .key = key, .value = "v"};
    ASSERT_EQ((PointWrites<C, PairWriter<C>>::Write(*writer_, op, &result, {})), Outcome::kOk);
  }
  // Puts a key whose record has been allocated in a pool that has no space since.
  Outcome InsertInFullPool(const std::string& key) {
    OpStages<C>& stages = writer_->stages();
    const WriteOp op{.kind = WriteKind::kPut, .key = key, .value = "v"};
    WriteResult result;
    PendingOp<C> pending;
    OpStages<C>::Begin(op, &result, &pending);
    EXPECT_EQ(stages.Stage(&pending), Outcome::kOk);
    for (size_t bytes = 8192; bytes >= 32; bytes /= 2) {
      while (tree_->slab.Allocate(bytes, pmem::ReservePolicy::kKeep) != 0) {
      }
    }
    auto held = writer_->Lock(pending.key, /*of_batch=*/true);
    stages.Finish(&pending);
    const Outcome outcome = writer_->Put(held, pending.key, pending.staged.pair);
    held.Unlock();
    return outcome;
  }
  size_t Leaves() const { return tree_->mnodes.count(); }

  pmem::TestArena arena_;
  std::unique_ptr<pmem::Pool> pool_;
  EngineContext context_;
  LeafSpace::Spare unused_;
  std::unique_ptr<TreeState<C>> tree_;
  std::unique_ptr<PairWriter<C>> writer_;
};

TEST_F(FullLeafTest, AFenceThatFitsIntoItsWordNeedsNoRoom) {
  ASSERT_TRUE(writer_->SetAside(1));
  EXPECT_EQ(InsertInFullPool("q"), Outcome::kOk);  // above all others
  EXPECT_EQ(Leaves(), 2u);
}

TEST_F(FullLeafTest, ALongFenceWithoutRoomRefusesThePut) {
  ASSERT_TRUE(writer_->SetAside(1));
  EXPECT_EQ(InsertInFullPool(LongKey(20) + "x"), Outcome::kPoolFull);
  EXPECT_EQ(Leaves(), 1u);
}

// A fence of the new key's length is enough.
TEST_F(FullLeafTest, WhatABatchSetsAsideIsEnough) {
  const std::string key = LongKey(20) + "x";
  ASSERT_TRUE(writer_->SetAside(1, LongPuts{1, key.size()}));
  EXPECT_EQ(InsertInFullPool(key), Outcome::kOk);
  EXPECT_EQ(Leaves(), 2u);
}

// The keys beside it need longer fences than the new one does: the leaf splits beside it.
TEST_F(FullLeafTest, AShortKeyNeedsAShortFence) {
  const std::string key = std::string(100, 'p');
  ASSERT_TRUE(writer_->SetAside(1, LongPuts{1, key.size()}));
  EXPECT_EQ(InsertInFullPool(key), Outcome::kOk);
  EXPECT_EQ(Leaves(), 2u);
}

}  // namespace
}  // namespace lodgekv::sptree
