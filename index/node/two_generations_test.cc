#include "index/node/two_generations.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "index/node/epoch.h"
#include "index/pmem/testing/arena_test_util.h"
#include "index/pmem/testing/silent_tracer.h"

namespace lodgekv {
namespace {

using pmem::ReservePolicy;
using Staged = TwoGenerations::Staged;

constexpr uint64_t kSmall = 1000;     // in a unit of the slab
constexpr uint64_t kLarge = 300'000;  // an object of its own

class TwoGenerationsTest : public ::testing::Test {
 protected:
  struct Parts {
    Parts(pmem::Pool& pool, bool in_place)
        : slab(pool),
          worker("generations", in_place ? &tracer : nullptr),
          reclaimer(slab, worker),
          generations(pool, slab, reclaimer, pool.engine_area()[0]) {}
    pmem::SilentTracer tracer;
    pmem::RecordSlab slab;
    BackgroundWorker worker;
    Reclaimer reclaimer;
    TwoGenerations generations;
  };

  void SetUp() override { Begin(/*in_place=*/true); }
  void Begin(bool in_place) { parts_.emplace(*pool_, in_place); }

  // As after a crash: free space is found again.
  absl::Status Reopen() {
    parts_.reset();
    pool_ = arena_.Open();
    Begin(/*in_place=*/true);
    slab().Adopt();
    const absl::Status status = generations().Recover("test");
    if (status.ok()) slab().FinishMark();
    return status;
  }

  pmem::RecordSlab& slab() { return parts_->slab; }
  TwoGenerations& generations() { return parts_->generations; }

  Staged StageText(const std::string& text) {
    Staged staged;
    EXPECT_TRUE(generations().Stage(text.size(), ReservePolicy::kKeep, &staged));
    const size_t half = text.size() / 2;
    generations().Write(staged, half, text.data() + half, text.size() - half);
    generations().Write(staged, 0, text.data(), half);
    return staged;
  }
  void CommitText(const std::string& text) { EXPECT_TRUE(generations().Commit(StageText(text))); }
  std::string CurrentText() {
    const EpochGuard guard;
    const TwoGenerations::Content content = generations().Current();
    return content.data == nullptr ? "none" : std::string(content.data, content.bytes);
  }

  pmem::TestArena arena_{2 << 20};
  std::unique_ptr<pmem::Pool> pool_ = arena_.Create();
  std::optional<Parts> parts_;
};

TEST_F(TwoGenerationsTest, ThereIsNoneBeforeTheFirst) {
  EXPECT_EQ(CurrentText(), "none");
  EXPECT_EQ(generations().space_bytes(), 0u);
  ASSERT_TRUE(Reopen().ok());
  EXPECT_EQ(CurrentText(), "none");
}

TEST_F(TwoGenerationsTest, TheOneCommittedLastIsFoundAndNothingElseTakesSpace) {
  uint64_t number = 0;
  for (const uint64_t bytes : {kSmall, kLarge, 2 * kLarge, uint64_t{0}, kSmall, uint64_t{1}}) {
    const std::string text(bytes, static_cast<char>('a' + number++));
    CommitText(text);
    EXPECT_EQ(CurrentText(), text);
    EXPECT_EQ(slab().used_bytes(), generations().space_bytes());
    EXPECT_GE(generations().space_bytes(), bytes);
    ASSERT_TRUE(Reopen().ok());
    EXPECT_EQ(CurrentText(), text);
    EXPECT_EQ(slab().used_bytes(), generations().space_bytes());
  }
}

TEST_F(TwoGenerationsTest, ContentsBeginWithABlock) {
  for (uint64_t bytes = 1; bytes < 3 * kSmall; bytes += 97) {
    CommitText(std::string(bytes, 'x'));
    EXPECT_EQ(pool_->OffsetOf(generations().Current().data) % pmem::kBlockBytes, 0u) << bytes;
  }
}

TEST_F(TwoGenerationsTest, WhatIsStagedOnlyIsNotFoundAndItsSpaceIsFree) {
  for (const uint64_t bytes : {kSmall, kLarge}) {
    CommitText("in use");
    (void)StageText(std::string(bytes, 's'));
    EXPECT_EQ(CurrentText(), "in use");
    ASSERT_TRUE(Reopen().ok());
    EXPECT_EQ(CurrentText(), "in use");
    EXPECT_EQ(slab().used_bytes(), generations().space_bytes());
    generations().Drop(StageText(std::string(bytes, 'd')));
    EXPECT_EQ(slab().used_bytes(), generations().space_bytes());
  }
}

TEST_F(TwoGenerationsTest, AFullPoolTakesNoneAndTheOneInUseStays) {
  CommitText("in use");
  Staged staged;
  EXPECT_FALSE(generations().Stage(uint64_t{4} << 20, ReservePolicy::kUse, &staged));
  EXPECT_EQ(CurrentText(), "in use");
  EXPECT_EQ(slab().used_bytes(), generations().space_bytes());
}

TEST_F(TwoGenerationsTest, AReaderKeepsTheOneThatItHasFound) {
  Begin(/*in_place=*/false);
  CommitText(std::string(kLarge, 'a'));
  const uint64_t one = generations().space_bytes();
  {
    const EpochGuard guard;
    const TwoGenerations::Content content = generations().Current();
    std::thread([&] { CommitText(std::string(kLarge, 'b')); }).join();
    EXPECT_EQ(generations().Current().data[0], 'b');
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(slab().used_bytes(), 2 * one);
    EXPECT_EQ(content.data[kLarge - 1], 'a');
  }
  (void)parts_->reclaimer.Drain();
  EXPECT_EQ(slab().used_bytes(), one);
}

TEST_F(TwoGenerationsTest, EveryFlippedBitOfRootAndHeaderIsFound) {
  CommitText(std::string(kLarge, 'a'));
  const uint64_t root = pool_->OffsetOf(&pool_->engine_area()[0]);
  const uint64_t header = pool_->OffsetOf(generations().Current().data) - pmem::kBlockBytes;
  for (const uint64_t word : {root, header, header + sizeof(uint64_t)}) {
    for (unsigned bit = 0; bit < 64; ++bit) {
      const auto flip = [&] { arena_.data()[word + bit / 8] ^= std::byte{1} << bit % 8; };
      flip();
      EXPECT_EQ(Reopen().code(), absl::StatusCode::kDataLoss) << word << " " << bit;
      flip();
    }
  }
  ASSERT_TRUE(Reopen().ok());
  EXPECT_EQ(CurrentText(), std::string(kLarge, 'a'));
}

// Two roots may not lead to the same space.
TEST_F(TwoGenerationsTest, TwoRootsToOneSpaceAreDamage) {
  CommitText("in use");
  pool_->medium().Store(pool_->engine_area()[1], pool_->engine_area()[0].Load());
  parts_.reset();
  pool_ = arena_.Open();
  Begin(/*in_place=*/true);
  slab().Adopt();
  TwoGenerations second(*pool_, slab(), parts_->reclaimer, pool_->engine_area()[1]);
  EXPECT_TRUE(generations().Recover("test").ok());
  EXPECT_EQ(second.Recover("test").code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace lodgekv
