#include "bench/engine_bench/worker_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <set>
#include <thread>

namespace lodgekv::bench {
namespace {

TEST(WorkerPoolTest, RunsEachShareOnItsOwnLastingThread) {
  WorkerPool pool(4, /*pin=*/true);
  std::mutex mu;
  std::set<std::thread::id> threads;
  std::multiset<unsigned> shares;
  for (int i = 0; i < 50; ++i) {
    pool.Run(4, [&](unsigned worker) {
      const std::lock_guard lock(mu);
      threads.insert(std::this_thread::get_id());
      shares.insert(worker);
    });
  }
  EXPECT_EQ(threads.size(), 4);
  for (unsigned worker = 0; worker < 4; ++worker) EXPECT_EQ(shares.count(worker), 50);
}

TEST(WorkerPoolTest, RunsFewerThanItHas) {
  WorkerPool pool(3, /*pin=*/false);
  std::mutex mu;
  std::multiset<unsigned> shares;
  for (const unsigned threads : {1U, 3U, 2U, 1U}) {
    pool.Run(threads, [&](unsigned worker) {
      const std::lock_guard lock(mu);
      shares.insert(worker);
    });
  }
  EXPECT_EQ(shares.count(0), 4);
  EXPECT_EQ(shares.count(1), 2);
  EXPECT_EQ(shares.count(2), 1);
}

TEST(WorkerPoolTest, BeginsTogetherAndTimesTheLongest) {
  WorkerPool pool(2, /*pin=*/false);
  std::atomic<unsigned> inside{0};
  // Each waits for the other inside: ends only if both run concurrently.
  const RunTime time = pool.Run(2, [&](unsigned worker) {
    inside.fetch_add(1);
    while (inside.load() < 2) std::this_thread::yield();
    if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  EXPECT_GE(time.seconds, 0.02);
  EXPECT_LT(time.seconds, 5);
}

TEST(WorkerPoolTest, TellsSleepFromWork) {
  WorkerPool pool(2, /*pin=*/false);
  const RunTime time =
      pool.Run(2, [](unsigned) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  EXPECT_GE(time.thread_seconds, 0.1);
  EXPECT_LT(time.cpu_seconds, 0.05);
  std::atomic<uint64_t> sum{0};
  const RunTime busy = pool.Run(1, [&](unsigned) {
    for (int i = 0; i < 20'000'000; ++i) sum.fetch_add(1, std::memory_order_relaxed);
  });
  EXPECT_GT(busy.cpu_seconds, 0.01);
  EXPECT_LE(busy.cpu_seconds, busy.thread_seconds * 1.01 + 0.001);
}

}  // namespace
}  // namespace lodgekv::bench
