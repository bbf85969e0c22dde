// Backups that cannot be written.
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <utility>

#include "index/sptree/sptree_test_util.h"

namespace lodgekv::sptree {
namespace {

// In place: each write that finds a backup due waits for it.
class BackupWorkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tree_.arena().options().tracer = &tracer_;
    tree_.KillAndRecover();
  }
  void TearDown() override { tree_.arena().options().tracer = nullptr; }
  void PutAll(uint64_t begin, uint64_t end) {
    for (uint64_t key = begin; key < end; ++key) {
      ASSERT_EQ(tree_.Put(Text(key), Text(key)), Outcome::kOk);
    }
  }
  uint64_t Count(std::string_view name) { return tree_.Counters().find(name)->second; }

  TestTree tree_{KeyFormat::kFixed64, {{"leaf_slots", "4"}}};
  bool no_memory_ = false;
  CallingTracer tracer_{"sptree.backup.1", [this] {
                          if (no_memory_) throw std::bad_alloc();
                        }};
};

TEST_F(BackupWorkTest, AfterALackOfMemoryTheNextOneIsWritten) {
  no_memory_ = true;
  PutAll(0, 100);
  EXPECT_EQ(Count("backups_total"), 0u);
  EXPECT_GT(Count("background_failures_total"), 0u);
  no_memory_ = false;
  PutAll(100, 200);
  EXPECT_GT(Count("backups_total"), 0u);
  EXPECT_GT(Count("backup_entries"), 30u);
}

// The one that was not written has taken the changes since the one before with it.
TEST_F(BackupWorkTest, AfterALackOfMemoryTheLeavesAreWalked) {
  PutAll(0, 100);
  const uint64_t written = Count("backups_total");
  ASSERT_GT(written, Count("backup_walks_total"));
  no_memory_ = true;
  PutAll(100, 200);
  no_memory_ = false;
  const uint64_t walks = Count("backup_walks_total");
  PutAll(200, 300);
  EXPECT_GT(Count("backups_total"), written);
  EXPECT_EQ(Count("backup_walks_total"), walks + 1);
  EXPECT_GT(Count("backup_entries") + 4, Count("leaves"));
}

// Merged leaves are kept for a backup, but not for one that will not be written.
TEST_F(BackupWorkTest, AfterALackOfMemoryMergedLeavesBecomeFree) {
  no_memory_ = true;
  PutAll(0, 400);
  for (uint64_t key = 0; key < 400; ++key) ASSERT_EQ(tree_.Delete(Text(key)), Outcome::kOk);
  no_memory_ = false;
  PutAll(0, 40);
  (void)tree_.engine().Close();
  const uint64_t leaves = Count("leaves");
  EXPECT_LE(tree_.engine().GetMemoryUse().medium_bytes, (leaves + 8) * sizeof(media::Bnode) + 8192);
}

}  // namespace
}  // namespace lodgekv::sptree
