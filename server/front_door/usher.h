// Hands connections on, in a thread of its own. gRPC may use the thread that hands it a connection
// to serve that connection, for as long as it sends without a pause: were that the door's, nobody
// would be let in meanwhile, nor would the sender ever be looked at and ended.
//
// INVARIANT  A descriptor is the usher's until its taker is called with it.
// Thread safety: all calls from one thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "server/front_door/unique_fd.h"

namespace lodgekv::server {

class Usher {
 public:
  using Taker = std::function<void(int fd)>;

  ~Usher() { Stop(); }

  void Start();
  // In the order of the calls; after Close it is closed. The taker must live until the usher has
  // stopped.
  void HandOn(const Taker& taker, UniqueFd fd);
  // How many are not yet handed on.
  size_t waiting();
  // No more are handed on; those that wait are closed.
  void Close();
  // Whether none is being handed on after Close.
  bool IsDone();
  // Waits for one that is being handed on. Without effect the second time.
  void Stop();

 private:
  struct Waiting {
    const Taker* taker;
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
