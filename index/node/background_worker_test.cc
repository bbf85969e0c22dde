#include "index/node/background_worker.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "index/pmem/testing/silent_tracer.h"

namespace lodgekv {
namespace {

using Progress = BackgroundWorker::Progress;
using Result = absl::StatusOr<Progress>;

// Opens once, for all waiting threads.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

BackgroundWorker::Task Append(std::string* to, char what) {
  return [to, what]() -> Result {
    *to += what;
    return Progress::kDone;
  };
}

// A benchmark's, or a server's.
TEST(BackgroundWorkerTest, IsNotBoundToTheProcessorOfWhoPostsFirst) {
  BackgroundWorker worker("tree", nullptr);
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  cpu_set_t of_task;
  std::thread([&] {
    cpu_set_t first;
    CPU_ZERO(&first);
    for (int i = 0; CPU_COUNT(&first) == 0; ++i) {
      if (CPU_ISSET(i, &all)) CPU_SET(i, &first);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof(first), &first), 0);
    worker.Post([&]() -> Result {
      EXPECT_EQ(sched_getaffinity(0, sizeof(of_task), &of_task), 0);
      return Progress::kDone;
    });
  }).join();
  worker.WaitUntilIdle();
  EXPECT_TRUE(CPU_EQUAL(&of_task, &all));
}

TEST(BackgroundWorkerTest, RunsTasksInOrderOnItsNamedThread) {
  BackgroundWorker worker("tree", nullptr);
  std::string order;
  char name[16] = "";
  worker.Post([&]() -> Result {
    pthread_getname_np(pthread_self(), name, sizeof(name));
    return Progress::kDone;
  });
  for (const char what : {'a', 'b', 'c'}) EXPECT_TRUE(worker.Post(Append(&order, what)));
  worker.WaitUntilIdle();
  EXPECT_EQ(order, "abc");
  EXPECT_STREQ(name, "tree");
}

// Tasks that were posted meanwhile run before the next step of a long task.
TEST(BackgroundWorkerTest, StepsOfALongTaskAreBehindWhatWaits) {
  BackgroundWorker worker("tree", nullptr);
  Gate posted;
  std::string order;
  int steps = 0;
  worker.Post([&]() -> Result {
    posted.Wait();
    order += 'L';
    return ++steps < 3 ? Progress::kMore : Progress::kDone;
  });
  worker.Post(Append(&order, 'a'));
  worker.Post(Append(&order, 'b'));
  posted.Open();
  worker.WaitUntilIdle();
  EXPECT_EQ(order, "LabLL");
}

TEST(BackgroundWorkerTest, StopWaitsForTheStepInHandAndDropsTheRest) {
  BackgroundWorker worker("tree", nullptr);
  Gate began;
  std::string order;
  unsigned steps = 0;
  const auto token = std::make_shared<int>();
  worker.Post([&]() -> Result {
    ++steps;
    began.Open();
    while (!worker.StopRequested()) std::this_thread::yield();
    order += 'L';
    return Progress::kMore;
  });
  worker.Post([&order, token]() -> Result {
    order += 'x';
    return Progress::kDone;
  });
  EXPECT_EQ(token.use_count(), 2);
  began.Wait();
  worker.Stop();
  EXPECT_EQ(order, "L");
  EXPECT_EQ(steps, 1U);
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_FALSE(worker.Post(Append(&order, 'y')));
  worker.WaitUntilIdle();
  worker.Stop();
  EXPECT_EQ(order, "L");
}

// Tasks still queued may refer to what is destroyed right after the worker.
TEST(BackgroundWorkerTest, EndsWithTasksWaiting) {
  std::string order;
  BackgroundWorker worker("tree", nullptr);
  for (int i = 0; i < 1000; ++i) worker.Post(Append(&order, 'a'));
}

TEST(BackgroundWorkerTest, KeepsTheFirstErrorAndGoesOn) {
  BackgroundWorker worker("tree", nullptr);
  EXPECT_TRUE(worker.status().ok());
  std::string order;
  worker.Post([]() -> Result { return absl::DataLossError("a leaf"); });
  worker.Post([]() -> Result { throw std::bad_alloc(); });
  worker.Post(Append(&order, 'a'));
  worker.WaitUntilIdle();
  EXPECT_EQ(order, "a");
  EXPECT_EQ(worker.status(), absl::DataLossError("a leaf"));
  EXPECT_EQ(worker.counters().failed, 2U);
  EXPECT_EQ(worker.counters().done, 3U);
}

TEST(BackgroundWorkerTest, Counts) {
  BackgroundWorker worker("tree", nullptr);
  Gate began;
  Gate posted;
  int steps = 0;
  worker.Post([&]() -> Result {
    began.Open();
    posted.Wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return ++steps < 2 ? Progress::kMore : Progress::kDone;
  });
  std::string order;
  worker.Post(Append(&order, 'a'));
  began.Wait();
  EXPECT_EQ(worker.counters().queued, 1U);
  EXPECT_TRUE(worker.counters().running);
  posted.Open();
  worker.WaitUntilIdle();
  std::map<std::string, double> seen;
  worker.VisitCounters(
      [&](const CounterSample& sample) { seen[std::string(sample.name)] = sample.value; });
  EXPECT_EQ(seen["background_queued_tasks"], 0);
  EXPECT_EQ(seen["background_running_tasks"], 0);
  EXPECT_EQ(seen["background_tasks_total"], 2);
  EXPECT_EQ(seen["background_failures_total"], 0);
  EXPECT_EQ(seen["background_steps_total"], 3);
  EXPECT_GE(seen["background_busy_seconds_total"], 0.004);
  EXPECT_EQ(seen.size(), 6U);
}

// Two long tasks, so that the queue never becomes empty, and many short ones.
TEST(BackgroundWorkerTest, TheQueueKeepsItsOrderWhenItIsNeverEmpty) {
  BackgroundWorker worker("tree", nullptr);
  std::string order;
  Gate posted;
  worker.Post([&]() -> Result {
    posted.Wait();
    return Progress::kDone;
  });
  for (const char what : {'a', 'b'}) {
    worker.Post([&order, what, steps = 0]() mutable -> Result {
      order += what;
      return ++steps < 500 ? Progress::kMore : Progress::kDone;
    });
  }
  posted.Open();
  worker.WaitUntilIdle();
  std::string expected;
  for (int i = 0; i < 500; ++i) expected += "ab";
  EXPECT_EQ(order, expected);
}

TEST(BackgroundWorkerTest, InPlacePostRunsTheTaskOnTheCallersThread) {
  pmem::SilentTracer tracer;
  BackgroundWorker worker("tree", &tracer);
  ASSERT_TRUE(worker.in_place());
  std::thread::id where;
  int steps = 0;
  worker.Post([&]() -> Result {
    where = std::this_thread::get_id();
    return ++steps < 3 ? Progress::kMore : Progress::kDone;
  });
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(where, std::this_thread::get_id());
}

// What a task posts runs after it, in place too.
TEST(BackgroundWorkerTest, TasksThatPostKeepTheOrder) {
  pmem::SilentTracer tracer;
  for (pmem::Tracer* const medium :
       {static_cast<pmem::Tracer*>(nullptr), static_cast<pmem::Tracer*>(&tracer)}) {
    BackgroundWorker worker("tree", medium);
    std::string order;
    worker.Post([&]() -> Result {
      worker.Post(Append(&order, 'b'));
      order += 'a';
      return Progress::kDone;
    });
    worker.WaitUntilIdle();
    EXPECT_EQ(order, "ab");
  }
}

}  // namespace
}  // namespace lodgekv
