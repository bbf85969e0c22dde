// A client's call on a completion queue: one object from when the server starts to listen for it
// until its answer has been delivered. It is the tag of all its events.
//
// INVARIANT  A call has at most one event outstanding (a session: session_call.h). It is used only
//            by its poller's thread, but for the time when it is with WorkThreads and has none.
//            After its release it holds no resources: no share of the admission, no connection, and
//            no ServerContext, which would keep its socket open.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "index/cost.h"
#include "server/base/connection.h"
#include "server/base/event.h"
#include "server/rpc/admission.h"
#include "server/rpc/call_host.h"
#include "server/rpc/kv_service.h"
#include "server/rpc/rpc_recorder.h"
#include "server/rpc/work.h"

namespace lodgekv::server {

class Call : public Event, public Work {
 public:
  using SteadyClock = std::chrono::steady_clock;

  Call(CallHost& host, Method method) : host_(host), method_(method) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Starts to listen for a client's call.
  virtual void Listen(KvService& service, grpc::ServerCompletionQueue* queue) = 0;

  // Answers with `status`.
  virtual void Answer(const grpc::Status& status) = 0;

  bool DeadlinePassed(std::chrono::system_clock::time_point now) const {
    return context_->deadline() <= now;
  }

  // The call is to be answered with this error when it is delivered.
  void Fail(const grpc::Status& error) { failure_ = error; }
  bool failed() const { return failure_.has_value(); }
  void Deliver() final;
  // Has the poller deliver it. By the thread that did the work, and used the call till now.
  void GiveBack() { host_.GiveBack(*this); }

  // Adds the cost of the group of `operations` that this call was part of, and its share of it.
  void AddCost(const Cost& cost, uint64_t operations, const Cost& share) {
    cost_ = cost_ + cost;
    share_ = share_ + share;
    group_operations_ = operations;
  }

  Method method() const { return method_; }
  // Valid once a request has been received.
  const Connection& connection() const { return *connection_; }
  bool ConnectionIsLight() const { return Admission::IsLight(*connection_); }

  // Since when the answer, or a page of it, has been waiting for the client to read it.
  SteadyClock::time_point pending_since() const { return pending_; }
  // Whether the client has read no answer of this connection since then.
  bool ConnectionReadNothingSince(SteadyClock::time_point since) const;
  // Cancels the call, so that its outstanding event arrives.
  void Cancel() { context_->TryCancel(); }

 protected:
  // Starts the call; `request_bytes` is the size of the request on the wire. False: the server's
  // phase does not allow the call, and an error has been answered.
  bool Begin(uint64_t request_bytes);
  // To check its request with, however late that is done: the time is that of Begin, from which a
  // ttl counts. For any thread that has the call.
  CheckContext RequestContext() const {
    const ServerState& state = host_.state();
    return {.limits = state.limits(), .pool = state.pool(), .now_unix_ms = received_unix_ms_};
  }
  // False: the admission refuses the call, and an error has been answered.
  bool Admit(uint64_t operations, uint64_t bytes);
  // Takes bytes for the answer, into `held`. If the admission refuses them: the error to answer
  // with.
  std::optional<grpc::Status> Hold(uint64_t bytes, Admission::Held& held);
  std::optional<grpc::Status> Hold(uint64_t bytes) { return Hold(bytes, held_); }
  // True: taken. A refusal is not counted as a refusal of the call.
  bool TryHold(uint64_t bytes, Admission::Held& held);
  // Releases the bytes above `bytes`.
  void ReleaseAbove(Admission::Held& held, uint64_t bytes);
  void ReleaseHeld(Admission::Held& held);

  // For sessions, whose requests are their messages.
  Connection& CallerConnection() { return *connection_; }
  void NoteSessionBegun();
  void NoteSessionMessage(uint64_t wire_bytes);
  void NoteSessionEnded();
  // A request was refused because of its content.
  void NoteInvalid(uint64_t bytes) {
    connection_->invalid_bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  // Counts the refusal, and makes the error to answer with.
  grpc::Status Refuse(const Admission::Verdict& verdict);

  // When the answer is ready to be sent: records latency and cost, adds the cost trailer.
  void Finished(grpc::StatusCode code, bool want_cost);
  // The answer, or a page of it, has been handed to gRPC: the event arrives when it has been
  // delivered, or after Cancel.
  void AnswerPending();
  // The event has arrived. ok: delivered; else the client has disconnected, or the call was
  // cancelled.
  void AnswerDelivered(bool ok);
  // After the last event: hands the object back to the host, which may destroy it.
  void Release();
  // Deliver, if the call has not failed.
  virtual void DeliverResult() = 0;
  // The size of the request in memory, if that may be larger than on the wire.
  virtual uint64_t BuiltBytes() const { return 0; }
  // Frees the context with what refers to it, the contents of the messages, and what else the call
  // holds.
  virtual void FreeResources() = 0;

  CallHost& host_;
  std::optional<grpc::ServerContext> context_;

 private:
  const Method method_;
  std::shared_ptr<Connection> connection_;
  SteadyClock::time_point start_;
  uint64_t received_unix_ms_ = 0;
  uint64_t request_bytes_ = 0;
  SteadyClock::time_point pending_;
  Admission::Held held_;
  Cost cost_;
  Cost share_;
  uint64_t group_operations_ = 0;
  std::optional<grpc::Status> failure_;
};

}  // namespace lodgekv::server
