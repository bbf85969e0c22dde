#include "index/pmem/internal/file_sync.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "index/pmem/testing/temp_dir.h"

namespace lodgekv::pmem {
namespace {

// A pipe cannot be synced; the file before it takes time, so that some threads wait for another
// thread's round.
TEST(FileSyncTest, AFailureIsToldToAllWhoWaitedForIt) {
  TempDir dir(TempDir::Disk());
  for (int round = 0; round < 300; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    close(ends[1]);
    const int file = open((dir / "file").c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_EQ(pwrite(file, &round, sizeof round, round * 4096), static_cast<ssize_t>(sizeof round));
    std::atomic<int> told = 0;
    FileSync sync({{"a file", file}, {"the pipe", ends[0]}}, nullptr,
                  [&](const std::string&) { ++told; });
    constexpr int kThreads = 4;
    std::atomic<int> acknowledged = 0;
    std::latch begin(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        begin.arrive_and_wait();
        if (sync.Sync()) ++acknowledged;
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(acknowledged, 0) << round;
    ASSERT_EQ(told, 1) << round;
    ASSERT_FALSE(sync.Sync());
  }
}

}  // namespace
}  // namespace lodgekv::pmem
