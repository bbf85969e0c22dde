// A thread for the operator's calls that take long: they run one after the other, and no more wait
// than a bound says, so that whoever asks for many of them takes one core at most.
//
// INVARIANT  What TryPost took is run, before the destructor returns at the latest.
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
  // Takes one call at a time, and `most_waiting` more.
  explicit AdminWorker(size_t most_waiting);
  ~AdminWorker();
  AdminWorker(const AdminWorker&) = delete;
  AdminWorker& operator=(const AdminWorker&) = delete;

  // False: as many wait as may.
  bool TryPost(std::function<void()> call);

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
