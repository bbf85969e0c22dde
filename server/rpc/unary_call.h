// The states that all unary calls share. Base is a kind of call (call_kinds.h).
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <optional>
#include <type_traits>
#include <utility>

#include "server/rpc/call.h"
#include "server/rpc/errors.h"
#include "server/rpc/kv_service.h"

namespace lodgekv::server {

template <class Base, class Messages>
class UnaryCall : public Base {
 public:
  using Base::Base;

  void Listen(KvService& service, grpc::ServerCompletionQueue* queue) final {
    answering_ = false;
    this->context_.emplace();
    responder_.emplace(&*this->context_);
    ListenOn(service, queue);
  }

  void OnEvent(bool ok) final {
    if (answering_) this->AnswerDelivered(ok);
    if (answering_ || !ok || this->host_.closed()) return this->Release();
    if (this->Begin(messages_.WireBytes())) return OnRequest();
    this->host_.ListenFor(this->method());
  }

  // When Finish returns gRPC has its own copy of the answer, and the request is not needed any
  // more: both are freed at once, however long the client takes to read.
  void Answer(const grpc::Status& given) final {
    answering_ = true;
    // Also for calls that the engine was working on when the pool was lost.
    const bool gone = given.ok() && this->host_.state().pool_gone();
    const grpc::Status status = gone ? PoolGoneError() : given;
    this->Finished(status.error_code(), messages_.want_cost());
    if (status.ok()) {
      responder_->Finish(messages_.ForWire(), status, this->Tag());
    } else {
      responder_->FinishWithError(status, this->Tag());
    }
    ClearMessages();
    this->AnswerPending();
  }

 protected:
  using Request = std::remove_reference_t<decltype(std::declval<Messages>().request())>;
  using Response = std::remove_reference_t<decltype(std::declval<Messages>().response())>;

  virtual void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) = 0;
  // The request has been received.
  virtual void OnRequest() { ParseRequest(); }
  // Lets another call object listen in place of this one, and parses the request.
  void ParseRequest() {
    this->host_.ListenFor(this->method());
    if (const auto error = messages_.Parse(this->host_.check_context().limits))
      return Answer(*error);
    Accept();
  }
  // Checks the request, then answers with an error or enqueues the call.
  virtual void Accept() = 0;
  virtual void ClearMessages() { messages_.Clear(); }
  uint64_t BuiltBytes() const final { return messages_.BuiltBytes(); }

  void FreeResources() final {
    responder_.reset();
    this->context_.reset();
    if (!answering_) ClearMessages();
  }

  const Request& request() const { return messages_.request(); }
  Response& response() { return messages_.response(); }

  Messages messages_;
  std::optional<grpc::ServerAsyncResponseWriter<typename Messages::ToWire>> responder_;

 private:
  bool answering_ = false;
};

}  // namespace lodgekv::server
