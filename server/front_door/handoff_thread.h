// Hands connections over to their receivers, in a thread of its own. gRPC may use the calling
// thread to serve the connection for as long as the client keeps sending. On the door's thread this
// would stop all accepts, and the checks that would close that very connection.
//
// INVARIANT  A descriptor belongs to this object until its receiver is called with it.
// Thread safety: all methods from one thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "server/front_door/unique_fd.h"

namespace lodgekv::server {

class HandoffThread {
 public:
  using Receiver = std::function<void(int fd)>;

  ~HandoffThread() { Stop(); }

  void Start();
  // In the order of the calls; after Close the descriptor is closed. The receiver must outlive the
  // thread.
  void HandOver(const Receiver& receiver, UniqueFd fd);
  // How many are not yet handed over.
  size_t waiting();
  // Hands over no more; queued ones are closed.
  void Close();
  // After Close: whether no hand-over is still running.
  bool IsDone();
  // Waits for a running hand-over. Without effect the second time.
  void Stop();

 private:
  struct Waiting {
    const Receiver* receiver;
    UniqueFd fd;
  };

  void Run();

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_.
  std::deque<Waiting> waiting_;
  bool closed_ = false;
  bool busy_ = false;
};

}  // namespace lodgekv::server
