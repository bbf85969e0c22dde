// The calls of KvService that answer once: how each checks its request, what it asks of the engine,
// and what it answers. The poller brings them together in groups.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "index/engine.h"
#include "lodgekv/v1/kv.pb.h"
#include "server/call.h"
#include "server/call_messages.h"
#include "server/errors.h"
#include "server/poller.h"

namespace lodgekv::server {

// A single Put or Delete, which shares the engine's group with others.
class WriteCall : public Call {
 public:
  using Call::Call;
  const WriteOp& op() const { return op_; }
  virtual void AnswerApplied(const WriteResult& result) = 0;

 protected:
  WriteOp op_;
};

// A batch, which goes to the engine by itself. To take it apart may take as long as many single
// calls, so that it waits for a turn to be opened, as it came, and for another to be served.
class BatchCall : public Call {
 public:
  using Call::Call;
  virtual uint64_t UnopenedBytes() const = 0;
  // Checks the request, then answers with the error or enqueues the call.
  virtual void Open() = 0;
  virtual void Serve(Engine& engine) = 0;
};

// The states that all calls with one answer share. Base is Call or one of the kinds above.
template <class Base, class Messages>
class UnaryCall : public Base {
 public:
  using Base::Base;

  void Listen() final {
    answering_ = false;
    this->context_.emplace();
    responder_.emplace(&*this->context_);
    ListenOn(this->poller_.service(), this->poller_.queue());
  }

  void OnEvent(bool ok) final {
    if (answering_) this->Taken(ok);
    if (answering_ || !ok || this->poller_.closed()) return this->Release();
    if (this->Begin(messages_.WireBytes())) return Come();
    this->poller_.ListenFor(this->method());
  }

  // gRPC has its own copy of the answer when Finish returns, and the request has been served: both
  // are let go, however long the client takes.
  void Answer(const grpc::Status& given) final {
    answering_ = true;
    // Also of what was in the engine's hand when the pool went.
    const bool gone = given.ok() && this->poller_.state().pool_gone();
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
    this->poller_.ListenFor(this->method());
    if (const auto error = messages_.Open(this->poller_.state().limits())) return Answer(*error);
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

class GetCall final : public UnaryCall<Call, KeptMessages<v1::GetRequest, v1::GetResponse>> {
 public:
  explicit GetCall(Poller& poller) : UnaryCall(poller, Method::kGet) {}
  std::string_view key() const { return request().key(); }
  // Takes the value out of the result.
  void AnswerRead(ReadResult& result);

 protected:
  void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) override;
  void Accept() override;
};

class PutCall final : public UnaryCall<WriteCall, KeptMessages<v1::PutRequest, v1::PutResponse>> {
 public:
  explicit PutCall(Poller& poller) : UnaryCall(poller, Method::kPut) {}
  void AnswerApplied(const WriteResult& result) override;

 protected:
  void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) override;
  void Accept() override;
};

class DeleteCall final
    : public UnaryCall<WriteCall, KeptMessages<v1::DeleteRequest, v1::DeleteResponse>> {
 public:
  explicit DeleteCall(Poller& poller) : UnaryCall(poller, Method::kDelete) {}
  void AnswerApplied(const WriteResult& result) override;

 protected:
  void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) override;
  void Accept() override;
};

// Until it is opened no other call is listened for in its place: what waits so is bounded in number
// by the listeners, as what waits in the completion queue is, and in bytes by the poller.
template <class Request, class Response>
class UnaryBatchCall : public UnaryCall<BatchCall, ArenaMessages<Request, Response>> {
 public:
  using UnaryCall<BatchCall, ArenaMessages<Request, Response>>::UnaryCall;
  uint64_t UnopenedBytes() const final { return this->messages_.WireBytes(); }
  void Open() final { this->TakeApart(); }

 protected:
  void Come() final { this->poller_.EnqueueUnopened(*this); }
};

class BatchGetCall final : public UnaryBatchCall<v1::BatchGetRequest, v1::BatchGetResponse> {
 public:
  explicit BatchGetCall(Poller& poller) : UnaryBatchCall(poller, Method::kBatchGet) {}
  void Serve(Engine& engine) override;

 protected:
  void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) override;
  void Accept() override;

 private:
  // Looks up keys [begin, end). Nothing, or the error of one of them.
  std::optional<grpc::Status> Look(Engine& engine, int begin, int end);
};

class BatchWriteCall final : public UnaryBatchCall<v1::BatchWriteRequest, v1::BatchWriteResponse> {
 public:
  explicit BatchWriteCall(Poller& poller) : UnaryBatchCall(poller, Method::kBatchWrite) {}
  void Serve(Engine& engine) override;

 protected:
  void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) override;
  void Accept() override;
  void LetGoOfMessages() override;

 private:
  std::vector<WriteOp> ops_;
  std::vector<WriteResult> results_;
};

std::unique_ptr<Call> MakeCall(Method method, Poller& poller);

}  // namespace lodgekv::server
