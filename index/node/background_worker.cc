#include "index/node/background_worker.h"

#include <pthread.h>

#include <chrono>
#include <new>
#include <system_error>
#include <utility>

namespace lodgekv {

namespace {

using Clock = std::chrono::steady_clock;

// With so many taken tasks at its front the queue may be compacted.
constexpr size_t kFewTaken = 32;

absl::StatusOr<BackgroundWorker::Progress> Call(const BackgroundWorker::Task& task) {
  try {
    return task();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory for work in the background");
  }
}

uint64_t NanosecondsSince(Clock::time_point begin) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
}

}  // namespace

BackgroundWorker::BackgroundWorker(std::string name, pmem::Tracer* tracer)
    : name_(std::move(name)),
      in_place_(tracer != nullptr && tracer->thread_host() == nullptr),
      host_(tracer == nullptr ? nullptr : tracer->thread_host()) {
  CPU_ZERO(&processors_);
  (void)sched_getaffinity(0, sizeof(processors_), &processors_);
}

bool BackgroundWorker::Post(Task task) {
  std::unique_lock lock(mutex_);
  if (StopRequested()) return false;
  tasks_.push_back(std::move(task));
  if (in_place_) {
    if (!running_) RunQueued(lock);
    return true;
  }
  StartThread();
  lock.unlock();
  wake_.notify_one();
  return true;
}

// Called under the mutex. If the system cannot start a thread, tasks stay queued until a later Post
// can start one.
void BackgroundWorker::StartThread() {
  if (host_ != nullptr) {
    if (!std::exchange(hosted_, true)) host_->Start(this, [this] { Run(); });
    return;
  }
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), name_.c_str());
      (void)sched_setaffinity(0, sizeof(processors_), &processors_);
      Run();
    });
  } catch (const std::system_error&) {
  }
}

void BackgroundWorker::Run() {
  std::unique_lock lock(mutex_);
  while (!StopRequested()) {
    wake_.wait(lock, [this] { return StopRequested() || !queue_empty(); });
    RunQueued(lock);
  }
}

// Called under the mutex, which is released while a step runs.
void BackgroundWorker::RunQueued(std::unique_lock<std::mutex>& lock) {
  running_ = true;
  while (!StopRequested() && !queue_empty()) RunStep(lock);
  running_ = false;
  idle_.notify_all();
}

void BackgroundWorker::RunStep(std::unique_lock<std::mutex>& lock) {
  Task task = TakeFirst();
  lock.unlock();
  const Clock::time_point begin = Clock::now();
  const absl::StatusOr<Progress> progress = Call(task);
  const uint64_t took = NanosecondsSince(begin);
  const bool more = progress.ok() && *progress == Progress::kMore;
  if (!more) task = nullptr;
  lock.lock();
  ++counts_.steps;
  counts_.busy_ns += took;
  if (more) {
    tasks_.push_back(std::move(task));
    return;
  }
  ++counts_.done;
  if (progress.ok()) return;
  ++counts_.failed;
  if (first_error_.ok()) first_error_ = progress.status();
}

BackgroundWorker::Task BackgroundWorker::TakeFirst() {
  Task task = std::move(tasks_[first_++]);
  if (queue_empty() || (first_ >= kFewTaken && first_ * 2 >= tasks_.size())) {
    tasks_.erase(tasks_.begin(), tasks_.begin() + static_cast<ptrdiff_t>(first_));
    first_ = 0;
  }
  return task;
}

void BackgroundWorker::WaitUntilIdle() {
  if (host_ != nullptr) host_->LetRun();
  std::unique_lock lock(mutex_);
  const bool has_thread = hosted_ || thread_.joinable();
  if (!has_thread && !running_) RunQueued(lock);
  idle_.wait(lock, [this] { return !running_ && (queue_empty() || StopRequested()); });
}

void BackgroundWorker::Stop() {
  std::vector<Task> dropped;
  bool hosted;
  {
    std::unique_lock lock(mutex_);
    stop_.store(true, std::memory_order_release);
    dropped.swap(tasks_);
    first_ = 0;
    hosted = std::exchange(hosted_, false);
    wake_.notify_one();
    // In place, the step may run on another thread.
    if (in_place_) idle_.wait(lock, [this] { return !running_; });
  }
  if (hosted) host_->Join(this);
  if (thread_.joinable()) thread_.join();
}

absl::Status BackgroundWorker::status() const {
  const std::lock_guard lock(mutex_);
  return first_error_;
}

BackgroundWorker::Counters BackgroundWorker::counters() const {
  const std::lock_guard lock(mutex_);
  Counters counters = counts_;
  counters.queued = tasks_.size() - first_;
  counters.running = running_;
  return counters;
}

void BackgroundWorker::VisitCounters(CounterVisitor visitor) const {
  constexpr double kNanosecondsPerSecond = 1e9;
  const Counters now = counters();
  const auto count = [&](std::string_view name, std::string_view help, double value) {
    visitor({name, help, CounterKind::kCounter, value});
  };
  count("background_tasks_total", "Tasks of the engine's background thread that ended",
        static_cast<double>(now.done));
  count("background_failures_total", "Tasks of the engine's background thread that failed",
        static_cast<double>(now.failed));
  count("background_steps_total", "Steps of tasks of the engine's background thread",
        static_cast<double>(now.steps));
  count("background_busy_seconds_total", "Time that the engine's background thread has worked",
        static_cast<double>(now.busy_ns) / kNanosecondsPerSecond);
  visitor({"background_queued_tasks", "Tasks that wait for the engine's background thread",
           CounterKind::kGauge, static_cast<double>(now.queued)});
  visitor({"background_running_tasks", "1 while the engine's background thread is at work, or 0",
           CounterKind::kGauge, now.running ? 1.0 : 0.0});
}

}  // namespace lodgekv
