#include "index/pmem/pool_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::pmem {
namespace {

using ::testing::HasSubstr;

class PoolWatchTest : public ::testing::Test {
 protected:
  PoolWatchTest() { Write(pool_, "the pool's bytes"); }

  static void Write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }

  // Waits for the watch's thread, long enough for a busy machine.
  const PoolLoss* Await() const {
    for (int i = 0; i < 500 && !told_; ++i) usleep(20'000);
    return told_ ? &loss_ : nullptr;
  }

  void Watch(const std::string& path, const std::string& journal = {}) {
    auto inspected = PoolPath::Inspect(path);
    ASSERT_TRUE(inspected.ok()) << inspected.status();
    auto watch = PoolWatch::Start(*inspected, journal, [this](const PoolLoss& loss) {
      loss_ = loss;
      ++times_told_;
      told_ = true;
    });
    ASSERT_TRUE(watch.ok()) << watch.status();
    watch_ = *std::move(watch);
  }

  const TempDir dir_;
  const std::string pool_ = dir_ / "pool";
  const std::string other_ = dir_ / "other";
  PoolLoss loss_;
  int times_told_ = 0;
  std::atomic<bool> told_{false};
  std::unique_ptr<PoolWatch> watch_;
};

TEST_F(PoolWatchTest, WhatStaysIsNoLoss) {
  Write(other_, "a journal");
  Watch(pool_, other_);
  usleep(3 * 1000 * static_cast<useconds_t>(PoolWatch::kInterval.count()));
  // A journal or pool may grow, and its content change.
  Write(other_, "a journal that is written");
  EXPECT_EQ(watch_->Stop(), std::nullopt);
  EXPECT_EQ(times_told_, 0);
}

TEST_F(PoolWatchTest, DeletedIsToldOnceAndItsBytesAreKept) {
  Watch(pool_);
  std::filesystem::remove(pool_);
  const PoolLoss* loss = Await();
  ASSERT_NE(loss, nullptr);
  EXPECT_THAT(loss->what, HasSubstr(pool_ + " is gone"));
  EXPECT_FALSE(loss->cut_short);
  const size_t at = loss->what.find("/proc/");
  ASSERT_NE(at, std::string::npos) << loss->what;
  std::ifstream kept(loss->what.substr(at, loss->what.find(' ', at) - at));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), "the pool's bytes");
  // Final, even if a file exists again.
  Write(pool_, "the pool's bytes");
  ASSERT_TRUE(watch_->Stop().has_value());
  EXPECT_EQ(times_told_, 1);
}

TEST_F(PoolWatchTest, Replaced) {
  Watch(pool_);
  Write(other_, "the pool's bytes");
  std::filesystem::rename(other_, pool_);
  const PoolLoss* loss = Await();
  ASSERT_NE(loss, nullptr);
  EXPECT_THAT(loss->what, HasSubstr(pool_ + " is not the file"));
}

TEST_F(PoolWatchTest, CutShort) {
  Watch(pool_);
  std::filesystem::resize_file(pool_, 3);
  const PoolLoss* loss = Await();
  ASSERT_NE(loss, nullptr);
  EXPECT_THAT(loss->what, HasSubstr(pool_ + " was cut short: it has 3 bytes, and had 16"));
  EXPECT_TRUE(loss->cut_short);
}

TEST_F(PoolWatchTest, TheFolderGoes) {
  std::filesystem::create_directory(dir_ / "folder");
  Write(dir_ / "folder/pool", "bytes");
  Watch(dir_ / "folder/pool");
  std::filesystem::rename(dir_ / "folder", dir_ / "renamed");
  ASSERT_NE(Await(), nullptr);
}

TEST_F(PoolWatchTest, JournalCutShortLeavesThePoolWhole) {
  Write(other_, "a journal");
  Watch(pool_, other_);
  std::filesystem::resize_file(other_, 1);
  const PoolLoss* loss = Await();
  ASSERT_NE(loss, nullptr);
  EXPECT_THAT(loss->what, HasSubstr(other_ + " was cut short"));
  EXPECT_FALSE(loss->cut_short);
}

TEST_F(PoolWatchTest, APoolsetIsWatchedPartByPart) {
  Write(dir_ / "set", "PMEMPOOLSET\n1G " + pool_ + "\n1G " + other_ + "\n");
  Write(other_, "the second part");
  Watch(dir_ / "set");
  // An editor replaces the poolset file by a new one with the same parts.
  Write(dir_ / "edited", "PMEMPOOLSET\n# two parts\n1G " + pool_ + "\n1G " + other_ + "\n");
  std::filesystem::rename(dir_ / "edited", dir_ / "set");
  usleep(3 * 1000 * static_cast<useconds_t>(PoolWatch::kInterval.count()));
  EXPECT_EQ(times_told_, 0);
  std::filesystem::remove(other_);
  const PoolLoss* loss = Await();
  ASSERT_NE(loss, nullptr);
  EXPECT_THAT(loss->what, HasSubstr(other_ + " is gone"));
}

TEST_F(PoolWatchTest, APoolsetThatIsDeletedIsALoss) {
  Write(dir_ / "set", "PMEMPOOLSET\n1G " + pool_ + "\n");
  Watch(dir_ / "set");
  std::filesystem::remove(dir_ / "set");
  const PoolLoss* loss = Await();
  ASSERT_NE(loss, nullptr);
  EXPECT_THAT(loss->what, HasSubstr("set is gone"));
}

// The thread has not checked since: Stop does.
TEST_F(PoolWatchTest, StopLooksALastTime) {
  Watch(pool_);
  std::filesystem::remove(pool_);
  EXPECT_TRUE(watch_->Stop().has_value());
  EXPECT_EQ(times_told_, 1);
}

TEST_F(PoolWatchTest, NothingToWatchOver) {
  auto inspected = PoolPath::Inspect(dir_ / "nothing");
  ASSERT_TRUE(inspected.ok());
  const auto watch = PoolWatch::Start(*inspected, {}, [](const PoolLoss&) {});
  EXPECT_EQ(watch.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace lodgekv::pmem
