#include "bench/engine_bench/worker_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <ctime>

namespace lodgekv::bench {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of the calling thread.
double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The processors that this process may use.
std::vector<int> AllowedProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

bool PinTo(std::thread& thread, int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  return pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set) == 0;
}

}  // namespace

WorkerPool::WorkerPool(unsigned threads, bool pin) : times_(threads) {
  const std::vector<int> processors = AllowedProcessors();
  pinned_ = pin && !processors.empty();
  for (unsigned i = 0; i < threads; ++i) {
    workers_.emplace_back([this, i] { Work(i); });
    if (pinned_) pinned_ = PinTo(workers_.back(), processors[i % processors.size()]);
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

RunTime WorkerPool::Run(unsigned threads, absl::FunctionRef<void(unsigned)> body) {
  std::unique_lock lock(mu_);
  at_start_.store(0, std::memory_order_relaxed);
  running_ = threads;
  job_ = {job_.number + 1, threads, &body};
  changed_.notify_all();
  changed_.wait(lock, [this] { return running_ == 0; });
  RunTime time;
  double begin = times_[0].begin;
  double end = times_[0].end;
  for (unsigned i = 0; i < threads; ++i) {
    begin = std::min(begin, times_[i].begin);
    end = std::max(end, times_[i].end);
    time.thread_seconds += times_[i].end - times_[i].begin;
    time.cpu_seconds += times_[i].cpu;
  }
  time.seconds = end - begin;
  return time;
}

WorkerPool::Job WorkerPool::NextJob(unsigned worker, uint64_t last) {
  std::unique_lock lock(mu_);
  changed_.wait(lock, [&] { return stopping_ || (job_.number != last && worker < job_.threads); });
  return stopping_ ? Job{} : job_;
}

void WorkerPool::Work(unsigned worker) {
  for (Job job = NextJob(worker, 0); job.number != 0; job = NextJob(worker, job.number)) {
    RunShare(worker, job);
    bool last = false;
    {
      const std::lock_guard lock(mu_);
      last = --running_ == 0;
    }
    if (last) changed_.notify_all();
  }
}

void WorkerPool::RunShare(unsigned worker, const Job& job) {
  at_start_.fetch_add(1, std::memory_order_acq_rel);
  while (at_start_.load(std::memory_order_acquire) < job.threads) sched_yield();
  const double cpu_before = CpuSeconds();
  times_[worker].begin = Now();
  (*job.body)(worker);
  times_[worker].end = Now();
  times_[worker].cpu = CpuSeconds() - cpu_before;
}

}  // namespace lodgekv::bench
