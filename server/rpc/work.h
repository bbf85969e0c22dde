// What a poller may leave to a thread of WorkThreads (work_threads.h), and delivers when it comes
// back.
#pragma once

#include "server/rpc/call_list.h"

namespace lodgekv::server {

class Work : public CallLinks {
 public:
  // The work is done: answers, or sends what was made. By the poller's thread.
  virtual void Deliver() = 0;

 protected:
  ~Work() = default;
};

}  // namespace lodgekv::server
