// Spare space in a pool that is full, and when longer keys come.
#include "index/lodgetree/spare_space.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

constexpr auto kKeep = pmem::ReservePolicy::kKeep;

class SpareSpaceTest : public ::testing::Test {
 protected:
  SpareSpaceTest() { longest_.Note(16); }
  void FillPool() {
    for (const uint64_t bytes : {uint64_t{4096}, uint64_t{3'000}, uint64_t{16}}) {
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

// A split whose keys are short needs no fence for the longest key of all.
TEST_F(SpareSpaceTest, WhatFitsTheKeysOfASplitSufficesForIt) {
  ASSERT_TRUE(spares_.Ensure(source_, 1, kKeep));
  FillPool();
  longest_.Note(3'000);
  EXPECT_FALSE(spares_.Ensure(source_, 1, kKeep));
  EXPECT_TRUE(spares_.EnsureFor(source_, 16, 1, kKeep));
  EXPECT_EQ(spares_.fences(), 1u);
  EXPECT_FALSE(spares_.EnsureFor(source_, 200, 1, kKeep));
}

// As that of an operation before a crash, for which the longest key of then counted.
TEST_F(SpareSpaceTest, AFenceTakesTheSpaceOfALongerOneWhereNoOtherIsFree) {
  longest_.Note(3'000);
  ASSERT_TRUE(spares_.Ensure(source_, 1, kKeep));
  FillPool();
  spares_.FreeAll(source_);
  EXPECT_EQ(spares_.leaves(), 0u);
  ASSERT_TRUE(spares_.EnsureFor(source_, 16, 1, kKeep));
  EXPECT_GE(spares_.fence_bytes(slab_), 3'000u);
}

// Every fence would have to be as long from then on.
TEST_F(SpareSpaceTest, TheShortestFenceIsTakenFirst) {
  ASSERT_NE(slab_.Allocate(512, kKeep), 0u);  // so there are more of its size
  longest_.Note(3'000);
  ASSERT_TRUE(spares_.Ensure(source_, 1, kKeep));
  ASSERT_TRUE(spares_.EnsureFor(source_, 16, 0, kKeep));
  FillPool();
  ASSERT_TRUE(spares_.EnsureFor(source_, 16, 2, kKeep)) << "with space of the larger size";
  EXPECT_FALSE(spares_.FencesAreLongEnough(source_));
  EXPECT_LT(spares_.TakeFence().bytes, 3'000u);
  EXPECT_GE(spares_.TakeFence().bytes, 3'000u);
}

TEST_F(SpareSpaceTest, FencesThatAreLongEnoughCountBesideShortOnes) {
  longest_.Note(3'000);
  ASSERT_TRUE(spares_.Ensure(source_, 2, kKeep));
  ASSERT_TRUE(spares_.EnsureFor(source_, 16, 4, kKeep));
  FillPool();
  EXPECT_TRUE(spares_.EnsureFor(source_, 200, 2, kKeep));
  EXPECT_FALSE(spares_.EnsureFor(source_, 200, 3, kKeep));
  EXPECT_GE(spares_.fences(), 2u);
}

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

// Puts in flight in a pool that is full, and what a crash leaves of them.
class FullPoolReplayTest : public ::testing::Test {
 protected:
  inline static const TestTree::Options kSmallNodes = {{"node_slots", "4"}, {"leaf_slots", "6"}};

  // Buffers have what only splits can drain: it was put while there was room. Space for some more
  // leaves and records is left, and none of a larger size.
  FullPoolReplayTest() : tracer_("lodgetree.flush.2", [this] { TakeImage(); }) {
    tree_.arena().options().tracer = &tracer_;
    tree_.KillAndRecover();
    while (next_ < 4'000) EXPECT_EQ(PutNext(), Outcome::kOk);
    for (uint64_t n = 0; n < next_; n += 8) EXPECT_EQ(tree_.Delete(Key(n)), Outcome::kOk);
    // Recovery takes no chunk of this size for its own, so it stays taken.
    constexpr uint32_t kNoClass = 16;
    while (tree_.pool()
               .AcquireChunk(pmem::ChunkUse::kRecords, kNoClass, pmem::ReservePolicy::kUse)
               .ok()) {
    }
  }

  // With separators that do not fit into the leaf.
  static std::string Key(uint64_t n) { return std::string(20, 'k') + Text(RandomWord(n)); }
  Outcome PutNext() { return tree_.Put(Key(next_++), "value"); }

  // The entry of a put is durable, and its drain is not. Meanwhile another thread has put a longer
  // key, which has taken the last space of its size.
  void TakeImage() {
    if (!takes_images_) return;
    pmem::Word& longest = tree_.pool().engine_area()[media::kLongestKey];
    const uint64_t before = longest.Load();
    tree_.pool().medium().Store(longest, CheckedWord(60'000));
    image_.assign(tree_.arena().data(), tree_.arena().data() + tree_.arena().size());
    tree_.pool().medium().Store(longest, before);
  }
  // Takes images of the puts that split a leaf.
  bool PutNextInImage() {
    image_.clear();
    takes_images_ = true;
    const Effect effect = tree_.EffectOf([&] { (void)PutNext(); });
    takes_images_ = false;
    return !image_.empty() && effect["leaf_splits_total"] != 0;
  }

  CallingTracer tracer_;
  TestTree tree_{KeyFormat::kBytes, kSmallNodes};
  uint64_t next_ = 0;
  bool takes_images_ = false;
  std::vector<std::byte> image_;
};

TEST_F(FullPoolReplayTest, TakesTheSpaceThatAPutInFlightHadSetAside) {
  unsigned replayed_splits = 0;
  for (unsigned puts = 0; puts < 1'000 && replayed_splits < 3; ++puts) {
    if (!PutNextInImage()) continue;
    TestTree after(KeyFormat::kBytes, kSmallNodes);
    std::memcpy(after.arena().data(), image_.data(), image_.size());
    after.KillAndRecover(/*threads=*/2);
    ASSERT_FALSE(HasFailure()) << "put " << puts;
    if (after.Counters()["leaf_splits_total"] != 0) ++replayed_splits;
    after.ExpectSound();
    EXPECT_EQ(after.engine().CountKeys(), tree_.engine().CountKeys());
  }
  EXPECT_EQ(replayed_splits, 3u);
}

}  // namespace
}  // namespace lodgekv::lodgetree
