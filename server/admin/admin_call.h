// A unary call of the operator's service on a poller's queue: one object from when the server
// starts to listen for it until its last event has arrived.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <utility>

#include "server/base/event.h"

namespace lodgekv::server {

template <class Service, class Request, class Response>
class AdminCall {
 public:
  using Responder = grpc::ServerAsyncResponseWriter<Response>;
  using Method = void (Service::*)(grpc::ServerContext*, Request*, Responder*,
                                   grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*);
  // Answers, or has another thread answer, at once or later.
  using Handler = std::function<void(AdminCall& call)>;

  // Receives the calls of a method, one after another; by the thread that takes the queue's events.
  static void Receive(Service& service, Method method, const Handler& handler,
                      grpc::ServerCompletionQueue& queue) {
    auto* call = new AdminCall(service, method, handler, queue);
    call->context_.AsyncNotifyWhenDone(call->done_event_.Tag());
    (service.*method)(&call->context_, &call->request_, &call->responder_, &queue, &queue,
                      call->received_event_.Tag());
  }

  const Request& request() const { return request_; }
  Response& response() { return response_; }
  // Nobody waits for the answer. For any thread.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // Once, by any thread, which uses the call no more.
  void Answer(const grpc::Status& status) {
    if (status.ok()) {
      responder_.Finish(response_, status, answered_event_.Tag());
    } else {
      responder_.FinishWithError(status, answered_event_.Tag());
    }
  }

 private:
  // One of the kinds of events of a call.
  class Step final : public Event {
   public:
    using Member = void (AdminCall::*)(bool ok);
    Step(AdminCall& call, Member member) : call_(call), member_(member) {}
    void OnEvent(bool ok) override { (call_.*member_)(ok); }

   private:
    AdminCall& call_;
    const Member member_;
  };

  AdminCall(Service& service, Method method, Handler handler, grpc::ServerCompletionQueue& queue)
      : service_(service), method_(method), handler_(std::move(handler)), queue_(queue) {}

  // Not ok: the server has shut down, and no other event follows.
  void OnReceived(bool ok) {
    if (!ok) {
      delete this;
      return;
    }
    Receive(service_, method_, handler_, queue_);
    handler_(*this);
  }
  void OnAnswered(bool) { CountEnd(); }
  void OnDone(bool) {
    cancelled_.store(context_.IsCancelled(), std::memory_order_relaxed);
    CountEnd();
  }
  // The call ends with two events, in any order.
  void CountEnd() {
    if (++ends_ == 2) delete this;
  }

  Service& service_;
  const Method method_;
  const Handler handler_;
  grpc::ServerCompletionQueue& queue_;
  grpc::ServerContext context_;
  Request request_;
  Response response_;
  Responder responder_{&context_};
  std::atomic<bool> cancelled_{false};
  int ends_ = 0;
  Step received_event_{*this, &AdminCall::OnReceived};
  Step answered_event_{*this, &AdminCall::OnAnswered};
  Step done_event_{*this, &AdminCall::OnDone};
};

}  // namespace lodgekv::server
