// One completion queue for several servers, so that one thread receives the calls of all of them.
//
// gRPC's builder makes the queues of the server that it builds, and registers no others. What there
// is in version 1.51 is a callback just before a server starts, in which the C interface can
// register one more. The callback is one for the process, set when it starts.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

namespace lodgekv::server {

// A queue for a builder that refuses to build a server without one. No thread waits at it.
class UnusedQueue {
 public:
  explicit UnusedQueue(grpc::ServerBuilder& builder) : queue_(builder.AddCompletionQueue()) {}
  // After the server.
  ~UnusedQueue();
  UnusedQueue(const UnusedQueue&) = delete;
  UnusedQueue& operator=(const UnusedQueue&) = delete;

 private:
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
};

// While it lives, each server that this thread starts gets `queue`, too.
class SharedQueue {
 public:
  explicit SharedQueue(grpc::ServerCompletionQueue& queue);
  ~SharedQueue();
  SharedQueue(const SharedQueue&) = delete;
  SharedQueue& operator=(const SharedQueue&) = delete;
};

}  // namespace lodgekv::server
