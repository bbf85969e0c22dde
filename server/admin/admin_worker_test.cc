#include "server/admin/admin_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace lodgekv::server {
namespace {

// An answer uses the completion queue that its call came from: after Stop it may be gone.
TEST(AdminWorkerTest, StopWaitsForTheCallsThatItHasAcceptedAndAcceptsNoOther) {
  AdminWorker worker(1);
  std::promise<void> gate;
  std::promise<void> begun;
  std::atomic<int> run = 0;
  ASSERT_TRUE(worker.TryPost([&] {
    begun.set_value();
    gate.get_future().wait();
    ++run;
  }));
  begun.get_future().wait();
  ASSERT_TRUE(worker.TryPost([&] { ++run; }));
  EXPECT_FALSE(worker.TryPost([&] { ++run; })) << "one runs, and one waits";
  std::atomic<bool> stopped = false;
  std::thread stopping([&] {
    worker.Stop();
    stopped = true;
  });
  EXPECT_FALSE(stopped);
  gate.set_value();
  stopping.join();
  EXPECT_EQ(run, 2);
  EXPECT_FALSE(worker.TryPost([&] { ++run; }));
  worker.Stop();
  EXPECT_EQ(run, 2);
}

}  // namespace
}  // namespace lodgekv::server
