// A call of a client on a completion queue: one object from the moment the server listens for it
// until its answer has left. It is the tag of all its events.
//
// INVARIANT  A call has at most one event outstanding, and is used by its poller's thread only.
// What it
//            holds of the server's admission is given back when it is released.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "index/cost.h"
#include "server/rpc_recorder.h"

namespace lodgekv::server {

class Poller;

class Event {
 public:
  virtual ~Event() = default;
  // ok: what the completion queue says of the event.
  virtual void OnEvent(bool ok) = 0;
  // What a completion queue carries for it.
  void* Tag() { return static_cast<Event*>(this); }
};

class Call : public Event {
 public:
  Call(Poller& poller, Method method) : poller_(poller), method_(method) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Waits for a client.
  virtual void Listen() = 0;

  // Answers with an error, or OK.
  virtual void Answer(const grpc::Status& status) = 0;

  bool DeadlinePassed(std::chrono::system_clock::time_point now) const {
    return context_->deadline() <= now;
  }

  // Adds the cost of the group of `operations` that this call was served in, and its share of it.
  void AddCost(const Cost& cost, uint64_t operations, const Cost& share) {
    cost_ = cost_ + cost;
    share_ = share_ + share;
    group_operations_ = operations;
  }

  Method method() const { return method_; }

 protected:
  // Marks the beginning. False: the phase of the server or its load forbids the call, and it has
  // been answered so.
  bool Admit(uint64_t operations, uint64_t bytes);
  // Counts bytes of the answer as held.
  void Hold(uint64_t bytes);
  void GiveBack(uint64_t bytes);

  // The work is done and the answer about to leave: latency, slow-request log, cost trailer.
  void Finished(grpc::StatusCode code, bool want_cost);
  // The last event is over: hands the object back to the poller. The object may be gone afterwards.
  void Release();

  Poller& poller_;
  std::optional<grpc::ServerContext> context_;

 private:
  const Method method_;
  std::chrono::steady_clock::time_point start_;
  uint64_t held_operations_ = 0;
  uint64_t held_bytes_ = 0;
  Cost cost_;
  Cost share_;
  uint64_t group_operations_ = 0;
};

}  // namespace lodgekv::server
