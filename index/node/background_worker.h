// An engine's work in the background: tasks in the order in which they were posted, one at a time,
// on one thread with a name.
//
// A task is a function that makes one step each time it is called. A long task, such as a sweep of
// all leaves, returns kMore and is called again after the tasks that are queued by then: so it does
// not delay short tasks, and Stop waits for one step, never for a sweep.
//
// If the pool's medium is traced (the crash laboratory), the order of steps must be reproducible:
// tasks run on a thread of the tracer's ThreadHost, which schedules control, or, if the tracer has
// none, in place within Post. So the caller of Post holds no lock that a task takes, and no
// EpochGuard if a task waits for epochs.
//
// Invariants
//  1. Tasks begin in the order in which they were posted, and no two steps overlap.
//  2. After Stop no step is running, and none begins.
//
// Thread-safe.
#pragma once

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/pmem/medium.h"

namespace lodgekv {

class BackgroundWorker {
 public:
  enum class Progress : uint8_t { kDone, kMore };
  // An error ends this task and no other.
  using Task = std::function<absl::StatusOr<Progress>()>;

  struct Counters {
    uint64_t queued = 0;  // waiting tasks; not the one that is running
    bool running = false;
    uint64_t steps = 0;
    uint64_t done = 0;  // tasks that ended, including those that failed
    uint64_t failed = 0;
    uint64_t busy_ns = 0;  // within steps
  };

  // `name`: of the thread, at most 15 characters. The tracer is the medium's. The thread may run on
  // the processors that the caller may run on, wherever who posts first is pinned to.
  BackgroundWorker(std::string name, pmem::Tracer* tracer);
  ~BackgroundWorker() { Stop(); }
  BackgroundWorker(const BackgroundWorker&) = delete;
  BackgroundWorker& operator=(const BackgroundWorker&) = delete;

  // Costs a mutex and, if the thread sleeps, a wake-up; the first call starts the thread. Allocates
  // only if `task` does (a lambda that captures one or two pointers does not), or if more tasks are
  // queued than ever before. False: the worker was stopped, and the task is dropped.
  bool Post(Task task);

  // Returns when no task is queued or running, or when the worker was stopped. Not within a task.
  void WaitUntilIdle();

  // Waits for the running step, then ends the thread. Tasks that have not ended are dropped:
  // nothing that must happen may depend on one. A second call does nothing. Not within a task, and
  // not by two threads at once.
  void Stop();
  // For a step that takes long: when this is true it should end soon.
  bool StopRequested() const { return stop_.load(std::memory_order_acquire); }

  // Whether Post runs tasks itself.
  bool in_place() const { return in_place_; }

  // The first error of a task.
  absl::Status status() const;
  Counters counters() const;
  // The same as counters of the engine, named background_*.
  void VisitCounters(CounterVisitor visitor) const;

 private:
  void StartThread();
  void Run();
  void RunQueued(std::unique_lock<std::mutex>& lock);
  void RunStep(std::unique_lock<std::mutex>& lock);
  Task TakeFirst();
  bool queue_empty() const { return first_ == tasks_.size(); }

  const std::string name_;
  cpu_set_t processors_;
  const bool in_place_;
  pmem::ThreadHost* const host_;  // null: an own thread, or in place
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<Task> tasks_;  // from first_ on
  size_t first_ = 0;
  bool running_ = false;  // RunQueued is running, on some thread
  bool hosted_ = false;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  Counters counts_;  // all but `queued` and `running`
  absl::Status first_error_;
};

}  // namespace lodgekv
