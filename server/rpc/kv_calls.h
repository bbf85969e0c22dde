// The unary calls of KvService: how each checks its request, what it asks of the engine, and what
// it answers. The batcher groups them.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "index/engine.h"
#include "lodgekv/v1/kv.pb.h"
#include "server/rpc/call_kinds.h"
#include "server/rpc/call_messages.h"
#include "server/rpc/unary_call.h"

namespace lodgekv::server {

class GetCall final : public UnaryCall<ReadCall, PointMessages<&ParseGet>> {
 public:
  explicit GetCall(CallHost& host) : UnaryCall(host, Method::kGet) {}
  std::string_view key() const override { return request().op.key; }

 protected:
  void AnswerRead(ReadResult& result) override;
  void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) override;
  void Accept() override;
};

// A large request is not even parsed by the poller, since that takes a copy of it.
class PutCall final : public UnaryCall<WriteCall, PointMessages<&ParsePut>> {
 public:
  explicit PutCall(CallHost& host) : UnaryCall(host, Method::kPut) {}
  bool IsLong() const override { return unparsed_ || WriteCall::IsLong(); }
  bool Prepare() override;

 protected:
  void OnRequest() override;
  void AnswerApplied() override;
  void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) override;
  void Accept() override;

 private:
  bool unparsed_ = false;
};

class DeleteCall final : public UnaryCall<WriteCall, PointMessages<&ParseDelete>> {
 public:
  explicit DeleteCall(CallHost& host) : UnaryCall(host, Method::kDelete) {}

 protected:
  void AnswerApplied() override;
  void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) override;
  void Accept() override;
};

// No other call object listens in its place until it is admitted or answered: so the number of
// batches that wait to be parsed is bounded by that of the listeners, and their bytes by the
// batcher. One that is long, by its bytes or its entries on the wire, is admitted by these and
// parsed by the thread that serves it.
template <class Fields, size_t long_batch>
class UnaryBatchCall : public UnaryCall<BatchCall, BatchMessages<Fields>> {
 public:
  using UnaryCall<BatchCall, BatchMessages<Fields>>::UnaryCall;
  uint64_t UnparsedBytes() const final { return this->messages_.WireBytes(); }
  void Parse() final;
  bool IsLong() const final { return unparsed_; }
  bool Prepare() final;

 protected:
  void OnRequest() final { this->host_.EnqueueUnparsed(*this); }
  void Accept() final;
  // Checks what has been parsed, and counts its bytes. Nothing, or the error to answer with.
  virtual std::optional<grpc::Status> CheckParsed(uint64_t& bytes) = 0;

 private:
  uint64_t Operations() const { return std::max<uint64_t>(1, this->messages_.entries()); }

  bool unparsed_ = false;
};

class BatchGetCall final : public UnaryBatchCall<BatchGetFields, kLongBatchOfReads> {
 public:
  explicit BatchGetCall(CallHost& host) : UnaryBatchCall(host, Method::kBatchGet) {}
  bool Serve(Engine& engine, uint64_t now_unix_ms, uint64_t most_bytes) override;

 protected:
  void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) override;
  std::optional<grpc::Status> CheckParsed(uint64_t& bytes) override;

 private:
  void DeliverResult() override;
  void ClearMessages() override;
  // Looks up some keys from next_ on, and adds them to parts_. Nothing, or the error of one.
  // Without `takes_long` it ends before the first long value, which may be the first of all.
  std::optional<grpc::Status> LookUpSome(Engine& engine, uint64_t now_unix_ms, bool takes_long,
                                         std::span<ReadResult> space);
  // These keys, those from next_ on.
  std::optional<grpc::Status> ReadShort(Engine& engine, uint64_t now_unix_ms,
                                        std::span<const std::string_view> keys,
                                        std::span<ReadResult> results) const;
  // Holds what was read of them, and reads what was left out.
  std::optional<grpc::Status> HoldAll(Engine& engine, uint64_t now_unix_ms,
                                      std::span<const std::string_view> keys,
                                      std::span<ReadResult> results);
  std::optional<grpc::Status> HoldMore(uint64_t bytes);
  std::optional<grpc::Status> ErrorOf(std::span<const ReadResult> results) const;

  size_t next_ = 0;
  uint64_t bytes_ = 0;
  std::vector<grpc::Slice> parts_;
};

class BatchWriteCall final : public UnaryBatchCall<BatchWriteFields, kLongBatchOfWrites> {
 public:
  explicit BatchWriteCall(CallHost& host) : UnaryBatchCall(host, Method::kBatchWrite) {}
  bool Serve(Engine& engine, uint64_t now_unix_ms, uint64_t most_bytes) override;

 protected:
  void ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) override;
  std::optional<grpc::Status> CheckParsed(uint64_t& bytes) override;
  void ClearMessages() override;

 private:
  void DeliverResult() override;

  std::vector<WriteOp> ops_;
  std::vector<WriteResult> results_;
  Outcome outcome_ = Outcome::kOk;
};

}  // namespace lodgekv::server
