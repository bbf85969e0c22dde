// A call of a client on a completion queue: one object from the moment the server listens for it
// until its answer has left. It is the tag of all its events.
//
// INVARIANT  A call has at most one event outstanding, and is used by its poller's thread only.
//            When it is released it holds nothing any more: no share of the admission, no
//            connection, and no ServerContext, which would keep its socket open.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "index/cost.h"
#include "server/base/connection.h"
#include "server/rpc/admission.h"
#include "server/rpc/call_host.h"
#include "server/rpc/call_list.h"
#include "server/rpc/kv_service.h"
#include "server/rpc/rpc_recorder.h"

namespace lodgekv::server {

class Event {
 public:
  virtual ~Event() = default;
  // ok: what the completion queue says of the event.
  virtual void OnEvent(bool ok) = 0;
  // What a completion queue carries for it.
  void* Tag() { return static_cast<Event*>(this); }
};

class Call : public Event, public CallLinks {
 public:
  using SteadyClock = std::chrono::steady_clock;

  Call(CallHost& host, Method method) : host_(host), method_(method) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Waits for a client.
  virtual void Listen(KvService& service, grpc::ServerCompletionQueue* queue) = 0;

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
  // Once a request has come.
  const Connection& connection() const { return *connection_; }
  bool ConnectionHoldsLittle() const { return Admission::HoldsLittle(*connection_); }

  // Since when the client has been asked to take the answer, or a page of it.
  SteadyClock::time_point offered() const { return offered_; }
  // Its connection has taken none, of this call or another, since then.
  bool ConnectionTookNothingSince(SteadyClock::time_point since) const;
  // It was offered for too long: the event that is outstanding comes now.
  void Cancel() { context_->TryCancel(); }

 protected:
  // Marks the beginning, with the bytes that the request had on the wire. False: the phase of the
  // server forbids the call, and it has been answered so.
  bool Begin(uint64_t request_bytes);
  // False: what is in hand forbids the call, and it has been answered so.
  bool Admit(uint64_t operations, uint64_t bytes);
  // Takes bytes for the answer, in `held`. The error to answer with when there is no room.
  std::optional<grpc::Status> Hold(uint64_t bytes, Admission::Held& held);
  std::optional<grpc::Status> Hold(uint64_t bytes) { return Hold(bytes, held_); }
  // True: taken. Not so is no refusal of the call.
  bool TryHold(uint64_t bytes, Admission::Held& held);
  // Gives bytes back but for so many.
  void KeepOf(Admission::Held& held, uint64_t bytes);
  void GiveBack(Admission::Held& held);

  // The work is done and the answer about to leave: latency, slow-request log, cost trailer.
  void Finished(grpc::StatusCode code, bool want_cost);
  // The answer, or a page of it, is on its way: its event comes when the client has taken it, or
  // after Cancel.
  void Offered();
  // The event has come. ok: as it says; else the client is gone, or the call was cancelled.
  void Taken(bool ok);
  // The last event is over: hands the object back to the host. The object may be gone afterwards.
  void Release();
  // What the request takes in memory, where that may be more than it had bytes on the wire.
  virtual uint64_t BuiltBytes() const { return 0; }
  // Frees the context and what refers to it, what the messages hold, and what else was taken.
  virtual void LetGo() = 0;

  CallHost& host_;
  std::optional<grpc::ServerContext> context_;

 private:
  grpc::Status Refuse(const Admission::Verdict& verdict);

  const Method method_;
  std::shared_ptr<Connection> connection_;
  SteadyClock::time_point start_;
  uint64_t request_bytes_ = 0;
  SteadyClock::time_point offered_;
  Admission::Held held_;
  Cost cost_;
  Cost share_;
  uint64_t group_operations_ = 0;
};

}  // namespace lodgekv::server
