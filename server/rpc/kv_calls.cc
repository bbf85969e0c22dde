#include "server/rpc/kv_calls.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <utility>

#include "server/rpc/errors.h"
#include "server/rpc/expiry.h"
#include "server/rpc/request_check.h"

namespace lodgekv::server {
namespace {

// Keys of a BatchGet that are looked up at a time: enough to interleave their cache misses, few
// enough to stop soon when an answer grows too large.
constexpr int kKeysPerLookup = 16;
// The size of a result in an answer besides its value.
constexpr uint64_t kLookupOverheadBytes = 32;

uint64_t Operations(int count) { return std::max<uint64_t>(1, static_cast<uint64_t>(count)); }

template <class Message>
void FillLookup(ReadResult& result, Message& message) {
  message.set_found(result.found);
  if (!result.found) return;
  message.mutable_value()->swap(result.value);
  message.set_version(result.version);
  if (result.expiry_unix_ms != 0) {
    SetTimestamp(result.expiry_unix_ms, message.mutable_expire_time());
  }
}

grpc::Status AnswerTooLargeError(uint64_t limit) {
  const std::string message = fmt::format(
      "the values of this batch are more than max_batch_size, {} bytes: ask for fewer keys at once",
      limit);
  return ErrorBuilder(grpc::StatusCode::RESOURCE_EXHAUSTED, "ANSWER_TOO_LARGE", message)
      .Quota("max_batch_size", message)
      .Build();
}

}  // namespace

void GetCall::ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) {
  service.RequestGet(&*context_, &messages_.from_wire(), &*responder_, queue, queue, Tag());
}

void GetCall::Accept() {
  if (const auto error = CheckKey(request().key(), {}, host_.check_context())) {
    return Answer(*error);
  }
  if (Admit(1, request().key().size())) host_.Enqueue(*this);
}

void GetCall::AnswerRead(ReadResult& result) {
  if (result.outcome != Outcome::kOk) return Answer(FromReadOutcome(result.outcome, -1));
  response().Clear();
  FillLookup(result, response());
  if (const auto error = Hold(response().value().size())) return Answer(*error);
  Answer(grpc::Status::OK);
}

void PutCall::ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) {
  service.RequestPut(&*context_, &messages_.from_wire(), &*responder_, queue, queue, Tag());
}

void PutCall::Accept() {
  if (const auto error = ToWriteOp(request(), host_.check_context(), op_)) return Answer(*error);
  if (Admit(1, BytesOf(op_))) host_.Enqueue(*this);
}

void PutCall::AnswerApplied(const WriteResult& result) {
  response().set_version(result.version);
  Answer(FromWriteResult(result, {.condition = op_.condition}));
}

void DeleteCall::ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) {
  service.RequestDelete(&*context_, &messages_.from_wire(), &*responder_, queue, queue, Tag());
}

void DeleteCall::Accept() {
  if (const auto error = ToWriteOp(request(), host_.check_context(), op_)) return Answer(*error);
  if (Admit(1, BytesOf(op_))) host_.Enqueue(*this);
}

void DeleteCall::AnswerApplied(const WriteResult& result) {
  response().set_found(result.found);
  Answer(FromWriteResult(result, {.condition = op_.condition}));
}

void BatchGetCall::ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) {
  service.RequestBatchGet(&*context_, &messages_.from_wire(), &*responder_, queue, queue, Tag());
}

void BatchGetCall::Accept() {
  uint64_t bytes = 0;
  if (const auto error = CheckBatchGet(request(), host_.check_context(), bytes)) {
    return Answer(*error);
  }
  if (Admit(Operations(request().keys_size()), bytes)) host_.Enqueue(*this);
}

void BatchGetCall::Serve(Engine& engine) {
  response().Clear();
  const uint64_t limit = host_.check_context().limits.max_batch_size;
  uint64_t bytes = 0;
  for (int begin = 0; begin < request().keys_size(); begin += kKeysPerLookup) {
    const int end = std::min(begin + kKeysPerLookup, request().keys_size());
    if (const auto error = LookUp(engine, begin, end)) return Answer(*error);
    uint64_t added = 0;
    for (int i = begin; i < end; ++i) {
      added += response().results(i).value().size() + kLookupOverheadBytes;
    }
    bytes += added;
    if (bytes > limit) return Answer(AnswerTooLargeError(limit));
    if (const auto error = Hold(added)) return Answer(*error);
  }
  Answer(grpc::Status::OK);
}

std::optional<grpc::Status> BatchGetCall::LookUp(Engine& engine, int begin, int end) {
  std::array<std::string_view, kKeysPerLookup> keys;
  std::array<ReadResult, kKeysPerLookup> results;
  const auto count = static_cast<size_t>(end - begin);
  for (size_t i = 0; i < count; ++i) keys[i] = request().keys(begin + static_cast<int>(i));
  const Cost before = ThreadCost();
  const Outcome outcome = engine.Read(std::span(keys).first(count), std::span(results).first(count),
                                      {.now_unix_ms = host_.check_context().now_unix_ms});
  const Cost cost = ThreadCost() - before;
  AddCost(cost, static_cast<uint64_t>(request().keys_size()), cost);
  for (size_t i = 0; i < count; ++i) {
    if (outcome != Outcome::kOk && results[i].outcome != Outcome::kOk) {
      return FromReadOutcome(results[i].outcome, begin + static_cast<int>(i));
    }
    FillLookup(results[i], *response().add_results());
  }
  return std::nullopt;
}

void BatchWriteCall::ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) {
  service.RequestBatchWrite(&*context_, &messages_.from_wire(), &*responder_, queue, queue, Tag());
}

void BatchWriteCall::Accept() {
  uint64_t bytes = 0;
  if (const auto error = ToWriteOps(request(), host_.check_context(), ops_, bytes)) {
    return Answer(*error);
  }
  if (Admit(Operations(request().operations_size()), bytes)) host_.Enqueue(*this);
}

// The operations refer to the request.
void BatchWriteCall::ClearMessages() {
  UnaryCall::ClearMessages();
  std::vector<WriteOp>().swap(ops_);
  std::vector<WriteResult>().swap(results_);
}

void BatchWriteCall::Serve(Engine& engine) {
  response().Clear();
  if (ops_.empty()) return Answer(grpc::Status::OK);
  results_.assign(ops_.size(), {});
  const Cost before = ThreadCost();
  const Outcome outcome = engine.Write(ops_, results_,
                                       {.atomic = true,
                                        .now_unix_ms = host_.check_context().now_unix_ms,
                                        .applied_index = std::nullopt});
  const Cost cost = ThreadCost() - before;
  AddCost(cost, ops_.size(), cost);
  host_.state().NoteOutcome(outcome);
  if (outcome == Outcome::kOk) {
    for (size_t i = 0; i < ops_.size(); ++i) host_.recorder().RecordWrite(ops_[i], results_[i]);
    for (const WriteResult& result : results_) {
      v1::WriteResult* answer = response().add_results();
      answer->set_found(result.found);
      answer->set_version(result.version);
    }
    return Answer(grpc::Status::OK);
  }
  // The operation that failed, not one that was aborted because of it.
  const auto failed = std::find_if(results_.begin(), results_.end(), [](const WriteResult& result) {
    return result.outcome != Outcome::kOk && result.outcome != Outcome::kAborted;
  });
  if (failed == results_.end()) return Answer(FromWriteResult({.outcome = outcome}, {}));
  const auto index = static_cast<size_t>(failed - results_.begin());
  Answer(FromWriteResult(*failed,
                         {.condition = ops_[index].condition, .index = static_cast<int>(index)}));
}

}  // namespace lodgekv::server
