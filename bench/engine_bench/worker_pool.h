// The threads that run operations. They exist as long as the pool, like a server's, so that an
// engine's per-thread state is kept; each is pinned to a processor if the system allows it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace lodgekv::bench {

struct RunTime {
  double seconds = 0;         // from the first begin to the last end
  double thread_seconds = 0;  // summed over the threads, begin to end
  double cpu_seconds = 0;     // of it, on a processor: the rest was waiting, or other processes
};

class WorkerPool {
 public:
  WorkerPool(unsigned threads, bool pin);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs body(0) .. body(threads - 1), each on its own worker, started together.
  RunTime Run(unsigned threads, absl::FunctionRef<void(unsigned)> body);

  // Whether every worker is pinned.
  bool pinned() const { return pinned_; }

 private:
  struct Times {
    double begin = 0;
    double end = 0;
    double cpu = 0;
  };
  struct Job {
    uint64_t number = 0;  // 0: none yet
    unsigned threads = 0;
    absl::FunctionRef<void(unsigned)>* body = nullptr;
  };

  void Work(unsigned worker);
  void RunShare(unsigned worker, const Job& job);
  // Returns nothing while there is no new job for this worker; a job of number 0 ends it.
  Job NextJob(unsigned worker, uint64_t last);

  std::mutex mu_;
  std::condition_variable changed_;
  Job job_;
  unsigned running_ = 0;
  bool stopping_ = false;
  std::atomic<unsigned> at_start_{0};
  std::vector<Times> times_;
  bool pinned_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace lodgekv::bench
