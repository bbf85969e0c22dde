// What an atomic batch sets aside for bounds between long keys, in a pool that is full since.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "index/node/engine_test_util.h"
#include "index/pmem/testing/arena_test_util.h"
#include "index/tlbtree/anchor_writer.h"
#include "index/tlbtree/node_image.h"
#include "index/tlbtree/writes.h"

namespace lodgekv::tlbtree {

const EngineInfo& GetEngineInfo();

namespace {

using C = BytesCodec;

// They differ at their ends, so that a bound between two is long.
std::string LongKey(uint64_t n) { return std::string(600, 'p') + std::to_string(1000 + n); }

// A tree without its engine: one leaf, full of long keys.
class LongBoundsTest : public ::testing::Test {
 protected:
  LongBoundsTest() : arena_(uint64_t{1} << 20) {
    arena_.options().chunk_bytes = 8192;
    pmem::PoolIdentity identity = pmem::TestArena::Identity();
    identity.key_format = KeyFormat::kBytes;
    pool_ = arena_.Create(identity);
    EngineContext context;
    context.pool = pool_.get();
    context.key_format = KeyFormat::kBytes;
    context.options = *OptionValues::Parse(GetEngineInfo().options, {});
    tree_ = std::make_unique<TreeState<C>>(context);
    writer_ = std::make_unique<PairWriter<C>>(*tree_);
    MakeFirstLeaf();
    for (uint64_t i = 0; i < tree_->parameters.leaf_slots; ++i) {
      WriteResult result;
      const std::string key = LongKey(i);
      const WriteOp op{.kind = WriteKind::kPut, .key = key, .value = "v"};
      EXPECT_EQ((PointWrites<C, PairWriter<C>>::Write(*writer_, op, &result, {})), Outcome::kOk);
    }
  }
  ~LongBoundsTest() override { tree_->background.Stop(); }

  void MakeFirstLeaf() {
    const pmem::Offset leaf = tree_->nodes.Allocate(pmem::ReservePolicy::kKeep);
    const pmem::Offset anchor = tree_->anchors.Allocate(pmem::ReservePolicy::kKeep);
    NodeImage<C> image;
    image.SetSibling(0, {});
    image.StoreTo(tree_->medium, tree_->NodeAt(leaf));
    StoreAnchor(*tree_, anchor, {.node = leaf}, 0, {});
    tree_->medium.Store(pool_->engine_area()[media::kFirstAnchor], CheckedWord(anchor));
  }
  void FillPool() {
    for (size_t bytes = 8192; bytes >= 32; bytes /= 2) {
      while (tree_->slab.Allocate(bytes, pmem::ReservePolicy::kUse) != 0) {
      }
    }
  }
  // As a batch does, with a record that was allocated before the pool became full.
  Outcome PutInFullPool(const std::string& key) {
    OpStages<C>& stages = writer_->stages();
    const WriteOp op{.kind = WriteKind::kPut, .key = key, .value = "v"};
    WriteResult result;
    PendingOp<C> pending;
    OpStages<C>::Begin(op, &result, &pending);
    EXPECT_EQ(stages.Stage(&pending), Outcome::kOk);
    FillPool();
    auto held = writer_->Lock(pending.key, /*of_batch=*/true);
    stages.Finish(&pending);
    const Outcome outcome = writer_->Put(held, pending.key, pending.staged.pair);
    held.Unlock();
    return outcome;
  }
  size_t LongBoundsLeft() { return tree_->workers.Current().spare_lows.size(); }

  pmem::TestArena arena_;
  std::unique_ptr<pmem::Pool> pool_;
  std::unique_ptr<TreeState<C>> tree_;
  std::unique_ptr<PairWriter<C>> writer_;
};

TEST_F(LongBoundsTest, ALongBoundWithoutRoomRefusesThePut) {
  ASSERT_TRUE(writer_->SetAside(1));
  EXPECT_EQ(PutInFullPool(LongKey(5) + "x"), Outcome::kPoolFull);
}

TEST_F(LongBoundsTest, WhatABatchSetsAsideIsEnough) {
  const std::string key = LongKey(5) + "x";
  ASSERT_TRUE(writer_->SetAside(1, LongPuts{1, key.size()}));
  EXPECT_EQ(PutInFullPool(key), Outcome::kOk);
}

// A short key that comes first: the middle of its leaf is between long keys.
TEST_F(LongBoundsTest, AShortKeyTakesNoBoundFromALongOne) {
  ASSERT_TRUE(writer_->SetAside(2, LongPuts{1, LongKey(5).size() + 1}));
  ASSERT_EQ(PutInFullPool("p"), Outcome::kOk);
  EXPECT_GE(LongBoundsLeft(), 1u);
}

// Where no key of a batch is long, leaves split beside the new keys, whose bounds need no record.
TEST_F(LongBoundsTest, ShortKeysAloneNeedNoLongBound) {
  ASSERT_TRUE(writer_->SetAside(1, LongPuts{}));
  EXPECT_EQ(LongBoundsLeft(), 0u);
  EXPECT_EQ(PutInFullPool("q"), Outcome::kOk);
}

}  // namespace
}  // namespace lodgekv::tlbtree
