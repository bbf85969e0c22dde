#include "index/node/chain_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "index/pmem/testing/arena_test_util.h"

namespace lodgekv {
namespace {

using pmem::Offset;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr uint32_t kLeafBytes = 64;
constexpr uint64_t kDamaged = 1;  // no offset is odd

// Leaves whose first word is the offset of the next one.
struct Links {
  pmem::Pool& pool;

  absl::Status Next(Offset leaf, Offset* next) const {
    *next = pool.At<pmem::Word>(leaf)->Load();
    return *next == kDamaged ? DamagedPool("test", "a damaged leaf", leaf) : absl::OkStatus();
  }
  void Prefetch(Offset) const {}
  absl::Status NoLeaf(Offset leaf, Offset) const { return DamagedPool("test", "no leaf", leaf); }
  absl::Status ComesBack(Offset leaf) const { return DamagedPool("test", "comes back", leaf); }
};

class ChainWalkTest : public ::testing::TestWithParam<unsigned> {
 protected:
  ChainWalkTest() : random_(GetParam()) {
    pmem::UnitArena arena(*pool_, pmem::ChunkUse::kNodes, kLeafBytes);
    while (const Offset unit = arena.Allocate(pmem::ReservePolicy::kKeep)) units_.push_back(unit);
    std::shuffle(units_.begin(), units_.end(), random_);
    const size_t leaves = units_.size() / 2;
    chain_.assign(units_.begin(), units_.begin() + static_cast<ptrdiff_t>(leaves));
    free_.assign(units_.begin() + static_cast<ptrdiff_t>(leaves), units_.end());
    for (size_t i = 0; i < leaves; ++i) SetNext(chain_[i], i + 1 < leaves ? chain_[i + 1] : 0);
    for (const Offset unit : free_) SetNext(unit, 0);
  }

  void SetNext(Offset leaf, uint64_t next) {
    pool_->medium().Store(*pool_->At<pmem::Word>(leaf), next);
  }
  Offset AnyOf(const std::vector<Offset>& units) { return units[random_() % units.size()]; }

  // Walks the chain; stores what it found in found_, and what is in use afterwards in used_.
  absl::Status Walk() {
    pmem::UnitArena arena(*pool_, pmem::ChunkUse::kNodes, kLeafBytes);
    arena.Adopt(pool_->Chunks());
    ChainWalk<Links> walk(*pool_, arena, {*pool_});
    uint64_t told = 0;
    const RecoveryProgress tell = [&](std::string_view, uint64_t done, uint64_t) {
      EXPECT_GE(done, told);
      told = done;
    };
    PhaseProgress progress(tell, "leaf chain", 0);
    const absl::Status status = walk.Run(chain_[0], GetParam(), progress);
    EXPECT_GT(told, 0u);
    if (!status.ok()) return status;
    found_ = walk.Leaves(0, walk.size());
    for (int i = 0; i < 100; ++i) {
      const size_t begin = random_() % walk.size();
      const size_t end = begin + random_() % (walk.size() - begin + 1);
      EXPECT_THAT(walk.Leaves(begin, end),
                  ElementsAreArray(found_.begin() + static_cast<ptrdiff_t>(begin),
                                   found_.begin() + static_cast<ptrdiff_t>(end)));
    }
    // All other units are free: they can be marked.
    for (const Offset unit : free_) {
      EXPECT_EQ(arena.Mark(unit), pmem::UnitArena::MarkResult::kMarked);
    }
    for (const Offset leaf : chain_) {
      EXPECT_EQ(arena.Mark(leaf), pmem::UnitArena::MarkResult::kTwice);
    }
    return status;
  }

  pmem::TestArena memory_{1 << 20};
  std::unique_ptr<pmem::Pool> pool_ = memory_.Create();
  std::mt19937_64 random_;
  std::vector<Offset> units_;
  std::vector<Offset> chain_;
  std::vector<Offset> free_;
  std::vector<Offset> found_;
};

TEST_P(ChainWalkTest, FindsTheLeavesInTheirOrder) {
  ASSERT_GT(chain_.size(), 5000u);
  ASSERT_TRUE(Walk().ok());
  EXPECT_THAT(found_, ElementsAreArray(chain_));
}

// Stale pointers in free units: to leaves, to other free units, to nothing, to no unit.
TEST_P(ChainWalkTest, FreeUnitsMayHoldAnything) {
  for (int round = 0; round < 20; ++round) {
    for (const Offset unit : free_) {
      switch (random_() % 6) {
        case 0: SetNext(unit, kDamaged); break;
        case 1: SetNext(unit, AnyOf(free_)); break;
        case 2: SetNext(unit, 0); break;
        case 3: SetNext(unit, AnyOf(units_) + 16); break;
        default: SetNext(unit, AnyOf(chain_)); break;
      }
    }
    ASSERT_TRUE(Walk().ok());
    ASSERT_THAT(found_, ElementsAreArray(chain_)) << round;
  }
}

TEST_P(ChainWalkTest, DamageInTheChainIsFoundWhereItIs) {
  for (int round = 0; round < 20; ++round) {
    const size_t at = random_() % (chain_.size() - 1);
    const auto expect = [&](uint64_t next, const char* what, Offset where) {
      SetNext(chain_[at], next);
      const absl::Status status = Walk();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(std::string(what) + " at offset " + std::to_string(where) + " "));
    };
    expect(kDamaged, "a damaged leaf", chain_[at]);
    expect(chain_[at + 1] + 16, "no leaf", chain_[at]);
    const Offset before = chain_[random_() % (at + 1)];
    expect(before, "comes back", before);
    SetNext(chain_[at], chain_[at + 1]);
  }
  ASSERT_TRUE(Walk().ok());
}

TEST_P(ChainWalkTest, AChainOfOneLeaf) {
  SetNext(chain_[0], 0);
  free_ = {units_.begin() + 1, units_.end()};
  chain_.resize(1);
  for (const Offset unit : free_) SetNext(unit, AnyOf(units_));
  ASSERT_TRUE(Walk().ok());
  EXPECT_THAT(found_, ElementsAreArray(chain_));
}

INSTANTIATE_TEST_SUITE_P(Threads, ChainWalkTest, ::testing::Values(1, 2, 3, 8));

}  // namespace
}  // namespace lodgekv
