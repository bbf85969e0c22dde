// Spare space in a pool that is full, and when longer keys come.
#include "index/lodgetree/spare_space.h"

#include <gtest/gtest.h>

#include <string>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

constexpr auto kKeep = pmem::ReservePolicy::kKeep;

class SpareSpaceTest : public ::testing::Test {
 protected:
  SpareSpaceTest() { longest_.Note(16); }
  void FillPool() {
    for (const uint64_t bytes : {uint64_t{4096}, uint64_t{16}}) {
      while (slab_.Allocate(bytes, kKeep) != 0) {
      }
    }
  }

  pmem::TestArena memory_{1 << 20};
  std::unique_ptr<pmem::Pool> pool_ = memory_.Create();
  pmem::RecordSlab slab_{*pool_};
  pmem::UnitArena leaves_{*pool_, pmem::ChunkUse::kNodes, sizeof(media::Leaf)};
  LongestKey longest_{*pool_};
  const SpareSource source_{*pool_, leaves_, slab_, longest_, /*fences=*/true};
  SpareSpace spares_;
};

TEST_F(SpareSpaceTest, FencesFollowTheLongestKey) {
  ASSERT_TRUE(spares_.Ensure(source_, 4, kKeep));
  EXPECT_TRUE(spares_.FencesAreLongEnough(source_));
  longest_.Note(3'000);
  EXPECT_FALSE(spares_.FencesAreLongEnough(source_));
  ASSERT_TRUE(spares_.Ensure(source_, 4, kKeep));
  EXPECT_EQ(spares_.fences(), 4u);
  EXPECT_TRUE(spares_.FencesAreLongEnough(source_));
  EXPECT_EQ(slab_.used_bytes(), spares_.fence_bytes(slab_)) << "those before are freed";
}

// An operation that was admitted with them must find them.
TEST_F(SpareSpaceTest, FencesStayWhereThereIsNoRoomForLongerOnes) {
  ASSERT_TRUE(spares_.Ensure(source_, 4, kKeep));
  FillPool();
  const uint64_t used = slab_.used_bytes();
  longest_.Note(3'000);
  EXPECT_FALSE(spares_.Ensure(source_, 4, kKeep));
  EXPECT_EQ(spares_.fences(), 4u);
  EXPECT_EQ(spares_.leaves(), 4u);
  EXPECT_EQ(slab_.used_bytes(), used);
}

// Every fence would have to be as long from then on.
TEST(LongestKeyTest, IsNotThatOfARefusedPut) {
  TestTree tree(KeyFormat::kBytes);
  const std::string usual(16, 'k');
  const std::string longest(60'000, 'k');
  const auto noted = [&] { return tree.pool().engine_area()[media::kLongestKey].Load(); };
  ASSERT_EQ(tree.Put(usual, "value"), Outcome::kOk);
  const uint64_t before = noted();
  std::string filler = "f00000000";
  for (uint64_t i = 0;
       tree.Put(filler + std::to_string(i), std::string(60'000, 'v')) == Outcome::kOk; ++i) {
  }
  for (const size_t together : {1u, 2u}) {
    const std::vector<WriteOp> ops(together, {.key = longest, .value = "value"});
    std::vector<WriteResult> results(ops.size());
    (void)tree.engine().Write(ops, results, {});
    EXPECT_EQ(results[0].outcome, Outcome::kPoolFull);
    EXPECT_EQ(noted(), before);
  }
}

}  // namespace
}  // namespace lodgekv::lodgetree
