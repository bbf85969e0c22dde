// The states that all calls with one answer share. Base is a kind of call (call_kinds.h).
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
    if (answering_) this->Taken(ok);
    if (answering_ || !ok || this->host_.closed()) return this->Release();
    if (this->Begin(messages_.WireBytes())) return Come();
    this->host_.ListenFor(this->method());
  }

  // gRPC has its own copy of the answer when Finish returns, and the request has been served: both
  // are let go, however long the client takes.
  void Answer(const grpc::Status& given) final {
    answering_ = true;
    // Also of what was in the engine's hand when the pool went.
    const bool gone = given.ok() && this->host_.state().pool_gone();
    const grpc::Status status = gone ? PoolGoneError() : given;
    this->Finished(status.error_code(), request().want_cost());
    if (status.ok()) {
      responder_->Finish(messages_.ForWire(), status, this->Tag());
    } else {
      responder_->FinishWithError(status, this->Tag());
    }
    LetGoOfMessages();
    this->Offered();
  }

 protected:
  using Request = std::remove_reference_t<decltype(std::declval<Messages>().request())>;
  using Response = std::remove_reference_t<decltype(std::declval<Messages>().response())>;

  virtual void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) = 0;
  // The request has come.
  virtual void Come() { TakeApart(); }
  // Another call may come in the place of this one, which is checked.
  void TakeApart() {
    this->host_.ListenFor(this->method());
    if (const auto error = messages_.Open(this->host_.check_context().limits))
      return Answer(*error);
    Accept();
  }
  // Checks what the request says, then answers with the error or enqueues the call.
  virtual void Accept() = 0;
  virtual void LetGoOfMessages() { messages_.LetGo(); }
  uint64_t BuiltBytes() const final { return messages_.BuiltBytes(); }

  void LetGo() final {
    responder_.reset();
    this->context_.reset();
    if (!answering_) LetGoOfMessages();
  }

  Request& request() { return messages_.request(); }
  const Request& request() const { return messages_.request(); }
  Response& response() { return messages_.response(); }

  Messages messages_;
  std::optional<grpc::ServerAsyncResponseWriter<typename Messages::ToWire>> responder_;

 private:
  bool answering_ = false;
};

}  // namespace lodgekv::server
