// A thread for the operator's slow calls: they run one after the other from a bounded queue, so
// that they take one core at most, however many are asked for.
//
// INVARIANT  A call that TryPost accepted is run, at the latest before Stop or the destructor
//            returns.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lodgekv::server {

class AdminWorker {
 public:
  // Runs one call at a time, with `most_waiting` more in the queue.
  explicit AdminWorker(size_t most_waiting);
  ~AdminWorker();
  AdminWorker(const AdminWorker&) = delete;
  AdminWorker& operator=(const AdminWorker&) = delete;

  // False: the queue is full, or it is stopped.
  bool TryPost(std::function<void()> call);
  // Waits for the calls that it has accepted. Not for several threads at once.
  void Stop();

 private:
  void Run();

  const size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> calls_;  // guarded by mutex_
  bool busy_ = false;                        // guarded by mutex_
  bool stop_ = false;                        // guarded by mutex_
  std::thread thread_;
};

}  // namespace lodgekv::server
