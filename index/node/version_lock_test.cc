#include "index/node/version_lock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lodgekv {
namespace {

TEST(VersionLockTest, ALockedButUnpublishedNodeIsReadable) {
  VersionLock lock;
  const uint64_t before = lock.ReadBegin();
  ASSERT_TRUE(lock.TryUpgrade(before));
  EXPECT_TRUE(lock.IsLocked());
  // A writer that waits for a fence does not block readers.
  EXPECT_EQ(lock.ReadBegin(), before);
  EXPECT_TRUE(lock.Validate(before));
  lock.Unlock();
  EXPECT_FALSE(lock.IsLocked());
  EXPECT_TRUE(lock.Validate(before));
}

TEST(VersionLockTest, PublishingEndsAReadersView) {
  VersionLock lock;
  const uint64_t before = lock.ReadBegin();
  ASSERT_TRUE(lock.TryUpgrade(before));
  lock.BeginPublish();
  EXPECT_FALSE(lock.Validate(before));
  lock.EndPublish();
  EXPECT_FALSE(lock.Validate(before));
  EXPECT_TRUE(lock.IsLocked());
  const uint64_t after = lock.ReadBegin();
  EXPECT_NE(after, before);
  lock.Unlock();
  EXPECT_TRUE(lock.Validate(after));
}

TEST(VersionLockTest, UpgradeFailsWhenTakenOrStale) {
  VersionLock lock;
  const uint64_t before = lock.ReadBegin();
  ASSERT_TRUE(lock.TryUpgrade(before));
  EXPECT_FALSE(lock.TryUpgrade(before));
  EXPECT_FALSE(lock.TryUpgrade(lock.ReadBegin()));
  lock.BeginPublish();
  lock.EndPublish();
  lock.Unlock();
  EXPECT_FALSE(lock.TryUpgrade(before));
  EXPECT_FALSE(lock.IsLocked());
  EXPECT_TRUE(lock.TryUpgrade(lock.ReadBegin()));
}

TEST(VersionLockTest, ANewNodeCanBeginLocked) {
  VersionLock lock;
  lock.InitLocked();
  EXPECT_TRUE(lock.IsLocked());
  EXPECT_FALSE(lock.TryUpgrade(lock.ReadBegin()));
  lock.Unlock();
  EXPECT_TRUE(lock.TryUpgrade(lock.ReadBegin()));
}

// Two words that change together: a validated reader never sees one without the other, and no
// writer's update is lost.
TEST(VersionLockTest, ReadersSeeWholeChanges) {
  constexpr uint64_t kSteps = 20000;
  constexpr int kWriters = 2;
  VersionLock lock;
  std::atomic<uint64_t> left{0};
  std::atomic<uint64_t> right{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> torn{0};
  std::thread reader([&] {
    while (!stop.load()) {
      const uint64_t snapshot = lock.ReadBegin();
      const uint64_t a = left.load(std::memory_order_relaxed);
      const uint64_t b = right.load(std::memory_order_relaxed);
      if (lock.Validate(snapshot) && a != b) torn.fetch_add(1);
    }
  });
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&] {
      for (uint64_t step = 0; step < kSteps; ++step) {
        Backoff backoff;
        while (!lock.TryUpgrade(lock.ReadBegin())) backoff.Pause();
        const uint64_t next = left.load(std::memory_order_relaxed) + 1;
        lock.BeginPublish();
        left.store(next, std::memory_order_relaxed);
        right.store(next, std::memory_order_relaxed);
        lock.EndPublish();
        lock.Unlock();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  stop = true;
  reader.join();
  EXPECT_EQ(torn.load(), 0u);
  EXPECT_EQ(left.load(), kSteps * kWriters);
}

}  // namespace
}  // namespace lodgekv
