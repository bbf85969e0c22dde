#include "server/thread_supply.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace lodgekv::server {
namespace {

// Besides the pollers, as counted in a daemon under load: gRPC's executors, timers and callbacks
// grow with the cores; the metrics endpoint, the TLS watchers, the journal and the threads for an
// operator's calls do not.
constexpr size_t kThreadsPerCore = 4;
// docs/decisions/0031
constexpr size_t kCoresOfAPoller = 4;
constexpr size_t kOtherThreads = 24;

size_t Cores() { return std::max(1U, std::thread::hardware_concurrency()); }

size_t ThreadsNeeded(const Config& config) {
  const size_t recovery = config.recovery_threads != 0 ? config.recovery_threads : Cores();
  const size_t serving = Pollers(config) + config.scan_threads + config.write_threads;
  return std::max(serving, recovery) + kThreadsPerCore * Cores() + kOtherThreads;
}

// Threads that block until the object is destroyed.
class WaitingThreads {
 public:
  // Returns how many of them could be started.
  size_t Start(size_t wanted) {
    threads_.reserve(wanted);
    try {
      while (threads_.size() < wanted) {
        threads_.emplace_back([this] {
          std::unique_lock lock(mutex_);
          ended_.wait(lock, [this] { return end_; });
        });
      }
    } catch (const std::system_error&) {
      return threads_.size();
    }
    return wanted;
  }

  ~WaitingThreads() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    ended_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace

size_t Pollers(const Config& config) {
  return config.threads != 0 ? config.threads : std::max<size_t>(1, Cores() / kCoresOfAPoller);
}

absl::Status CheckThreadSupply(const Config& config) {
  const size_t needed = ThreadsNeeded(config);
  WaitingThreads threads;
  const size_t started = threads.Start(needed);
  if (started == needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "only {} of {} threads can be started: raise the limit of processes (ulimit -u, TasksMax of "
      "the unit, pids.max of the control group), or lower threads and scan_threads",
      started, needed));
}

}  // namespace lodgekv::server
