// A full pool: what finds space by draining buffered deletes.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "index/lodgetree/lodgetree_test_util.h"

namespace lodgekv::lodgetree {
namespace {

class SpaceReclaimTest : public ::testing::Test {
 protected:
  // Leaves the tree a few chunks, so that it is full soon.
  SpaceReclaimTest() {
    while (pool().AcquireChunk(pmem::ChunkUse::kRecords, 64, pmem::ReservePolicy::kKeep).ok()) {
    }
    while (PutNext() == Outcome::kOk) {
    }
    EXPECT_GT(keys_.size(), 1'000u);
  }

  pmem::Pool& pool() { return tree_.pool(); }
  std::string NextKey() { return Text(RandomWord(++last_)); }
  Outcome PutNext() {
    const std::string key = NextKey();
    const Outcome outcome = tree_.Put(key, Text(1));
    if (outcome == Outcome::kOk) keys_.insert(key);
    return outcome;
  }
  Outcome PutAsBatch(const std::string& key) {
    ++batches_;
    return tree_.Write({{.kind = WriteKind::kPut, .key = key, .value = Text(2)}},
                       {.atomic = true, .applied_index = batches_});
  }
  void DeleteAnyKey() {
    auto victim = keys_.lower_bound(NextKey());
    if (victim == keys_.end()) victim = keys_.begin();
    ASSERT_EQ(tree_.Delete(*victim), Outcome::kOk);
    keys_.erase(victim);
  }

  TestTree tree_{KeyFormat::kFixed64};
  std::set<std::string> keys_;
  uint64_t last_ = 0;
  uint64_t batches_ = 0;
};

TEST_F(SpaceReclaimTest, ABatchOfOneIsRefusedOnlyWhereALonePutIs) {
  unsigned accepted = 0;
  for (unsigned turn = 0; turn < 2'000; ++turn) {
    DeleteAnyKey();
    const std::string key = NextKey();
    const Outcome outcome = PutAsBatch(key);
    if (outcome == Outcome::kOk) {
      ++accepted;
      keys_.insert(key);
      EXPECT_EQ(tree_.engine().AppliedIndex(), batches_);
    } else {
      ASSERT_EQ(outcome, Outcome::kPoolFull);
      ASSERT_EQ(tree_.Put(key, Text(3)), Outcome::kPoolFull) << "turn " << turn;
    }
  }
  EXPECT_GT(accepted, 100u);
  tree_.ExpectSound();
  EXPECT_EQ(tree_.engine().CountKeys(), keys_.size());
}

}  // namespace
}  // namespace lodgekv::lodgetree
