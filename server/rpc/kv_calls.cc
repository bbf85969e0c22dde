#include "server/rpc/kv_calls.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/rpc/batch_answer.h"
#include "server/rpc/errors.h"
#include "server/rpc/point_answer.h"
#include "server/rpc/request_check.h"

namespace lodgekv::server {

void GetCall::ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) {
  service.RequestGet(&*context_, &messages_.from_wire(), &*responder_, queue, queue, Tag());
}

void GetCall::Accept() {
  if (const auto error = CheckKey(key(), {}, host_.check_context())) return Answer(*error);
  if (Admit(1, messages_.RequestBytes())) host_.Enqueue(*this);
}

void GetCall::AnswerRead(ReadResult& result) {
  if (result.outcome != Outcome::kOk) return Answer(FromReadOutcome(result.outcome, -1));
  response() = GetAnswerOnWire(result);
  Answer(grpc::Status::OK);
}

void PutCall::ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) {
  service.RequestPut(&*context_, &messages_.from_wire(), &*responder_, queue, queue, Tag());
}

void PutCall::OnRequest() {
  const uint64_t bytes = messages_.WireBytes();
  unparsed_ = bytes > kLongBytes;
  if (!unparsed_) return ParseRequest();
  host_.ListenFor(method());
  if (Admit(1, bytes)) host_.Enqueue(*this);
}

bool PutCall::Prepare() {
  if (!std::exchange(unparsed_, false)) return true;
  const CheckContext context = RequestContext();
  auto error = messages_.Parse(context.limits);
  if (!error) error = ToPut(request().op, context, op_);
  if (error) Fail(*error);
  return !error;
}

void PutCall::Accept() {
  if (const auto error = ToPut(request().op, host_.check_context(), op_)) return Answer(*error);
  if (Admit(1, messages_.RequestBytes())) host_.Enqueue(*this);
}

void PutCall::AnswerApplied() {
  response() = PutAnswerOnWire(result_.version);
  Answer(FromWriteResult(result_, {.condition = op_.condition}));
}

void DeleteCall::ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) {
  service.RequestDelete(&*context_, &messages_.from_wire(), &*responder_, queue, queue, Tag());
}

void DeleteCall::Accept() {
  if (const auto error = ToDelete(request().op, host_.check_context(), op_)) return Answer(*error);
  if (Admit(1, messages_.RequestBytes())) host_.Enqueue(*this);
}

void DeleteCall::AnswerApplied() {
  response() = DeleteAnswerOnWire(result_.found);
  Answer(FromWriteResult(result_, {.condition = op_.condition}));
}

template <class Fields, size_t long_batch>
void UnaryBatchCall<Fields, long_batch>::Parse() {
  auto& messages = this->messages_;
  this->host_.ListenFor(this->method());
  if (const auto error = messages.Check(this->host_.check_context().limits)) {
    return this->Answer(*error);
  }
  unparsed_ = messages.entries() > long_batch || messages.WireBytes() > kLongBytes;
  if (unparsed_) {
    if (this->Admit(Operations(), messages.WireBytes())) this->host_.Enqueue(*this);
  } else if (const auto error = messages.Build()) {
    this->Answer(*error);
  } else {
    Accept();
  }
}

template <class Fields, size_t long_batch>
bool UnaryBatchCall<Fields, long_batch>::Prepare() {
  if (!std::exchange(unparsed_, false)) return true;
  uint64_t bytes = 0;
  auto error = this->messages_.Build();
  if (!error) error = CheckParsed(bytes);
  if (error) this->Fail(*error);
  return !error;
}

template <class Fields, size_t long_batch>
void UnaryBatchCall<Fields, long_batch>::Accept() {
  uint64_t bytes = 0;
  if (const auto error = CheckParsed(bytes)) return this->Answer(*error);
  if (this->Admit(Operations(), bytes)) this->host_.Enqueue(*this);
}

template class UnaryBatchCall<BatchGetFields, kLongBatchOfReads>;
template class UnaryBatchCall<BatchWriteFields, kLongBatchOfWrites>;

void BatchGetCall::ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) {
  service.RequestBatchGet(&*context_, &messages_.from_wire(), &*responder_, queue, queue, Tag());
}

std::optional<grpc::Status> BatchGetCall::CheckParsed(uint64_t& bytes) {
  return CheckBatchGet(request().entries, RequestContext(), bytes);
}

bool BatchGetCall::Serve(Engine& engine, uint64_t now_unix_ms, uint64_t most_bytes) {
  const bool takes_long = most_bytes == kAllBytes;
  std::array<ReadResult, kKeysPerLookup> space;
  while (next_ < request().entries.size()) {
    if (bytes_ > most_bytes) return false;
    const size_t before = next_;
    if (const auto error = LookUpSome(engine, now_unix_ms, takes_long, space)) {
      Fail(*error);
      break;
    }
    if (next_ == before) return false;
  }
  return true;
}

// `space` is reused for all keys of the call: the memory of its values is.
std::optional<grpc::Status> BatchGetCall::LookUpSome(Engine& engine, uint64_t now_unix_ms,
                                                     bool takes_long, std::span<ReadResult> space) {
  const std::span<const std::string_view> all(request().entries);
  auto keys = all.subspan(next_, std::min(space.size(), all.size() - next_));
  auto results = space.first(keys.size());
  const Cost before = ThreadCost();
  auto error = ReadShort(engine, now_unix_ms, keys, results);
  if (!takes_long) {
    const auto first_long = std::ranges::find_if(results, &ReadResult::left_out);
    results = results.first(static_cast<size_t>(first_long - results.begin()));
  }
  keys = keys.first(results.size());
  if (!error) error = HoldAll(engine, now_unix_ms, keys, results);
  const Cost cost = ThreadCost() - before;
  AddCost(cost, all.size(), cost);
  if (error || keys.empty()) return error;
  parts_.push_back(LookupsOnWire(results));
  next_ += keys.size();
  return std::nullopt;
}

// Leaves long values out.
std::optional<grpc::Status> BatchGetCall::ReadShort(Engine& engine, uint64_t now_unix_ms,
                                                    std::span<const std::string_view> keys,
                                                    std::span<ReadResult> results) const {
  const Outcome outcome =
      engine.Read(keys, results, {.now_unix_ms = now_unix_ms, .most_value_bytes = kLongBytes});
  return outcome == Outcome::kOk ? std::nullopt : ErrorOf(results);
}

// Long values one at a time, so that there is never more than one that nobody has counted.
std::optional<grpc::Status> BatchGetCall::HoldAll(Engine& engine, uint64_t now_unix_ms,
                                                  std::span<const std::string_view> keys,
                                                  std::span<ReadResult> results) {
  uint64_t bytes = 0;
  for (const ReadResult& result : results) bytes += result.left_out ? 0 : AnswerBytes(result);
  if (auto error = HoldMore(bytes)) return error;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!results[i].left_out) continue;
    const Outcome of_one =
        engine.Read(keys.subspan(i, 1), results.subspan(i, 1), {.now_unix_ms = now_unix_ms});
    if (of_one != Outcome::kOk) return FromReadOutcome(of_one, static_cast<int>(next_ + i));
    if (auto error = HoldMore(AnswerBytes(results[i]))) return error;
  }
  return std::nullopt;
}

std::optional<grpc::Status> BatchGetCall::HoldMore(uint64_t bytes) {
  bytes_ += bytes;
  const uint64_t limit = host_.state().limits().max_batch_size;
  if (bytes_ > limit) return AnswerTooLargeError(limit);
  return Hold(bytes);
}

// `results` are those of the keys from next_ on.
std::optional<grpc::Status> BatchGetCall::ErrorOf(std::span<const ReadResult> results) const {
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].outcome != Outcome::kOk) {
      return FromReadOutcome(results[i].outcome, static_cast<int>(next_ + i));
    }
  }
  return std::nullopt;
}

void BatchGetCall::DeliverResult() {
  response() = grpc::ByteBuffer(parts_.data(), parts_.size());
  Answer(grpc::Status::OK);
}

void BatchGetCall::ClearMessages() {
  UnaryCall::ClearMessages();
  next_ = 0;
  bytes_ = 0;
  std::vector<grpc::Slice>().swap(parts_);
}

void BatchWriteCall::ListenOn(KvService& service, grpc::ServerCompletionQueue* queue) {
  service.RequestBatchWrite(&*context_, &messages_.from_wire(), &*responder_, queue, queue, Tag());
}

std::optional<grpc::Status> BatchWriteCall::CheckParsed(uint64_t& bytes) {
  return ToWriteOps(request().entries, RequestContext(), ops_, bytes);
}

// The operations refer to the request.
void BatchWriteCall::ClearMessages() {
  UnaryCall::ClearMessages();
  std::vector<WriteOp>().swap(ops_);
  std::vector<WriteResult>().swap(results_);
}

bool BatchWriteCall::Serve(Engine& engine, uint64_t now_unix_ms, uint64_t) {
  outcome_ = Outcome::kOk;
  results_.assign(ops_.size(), {});
  if (ops_.empty()) return true;
  const Cost before = ThreadCost();
  outcome_ = engine.Write(
      ops_, results_, {.atomic = true, .now_unix_ms = now_unix_ms, .applied_index = std::nullopt});
  const Cost cost = ThreadCost() - before;
  AddCost(cost, ops_.size(), cost);
  return true;
}

void BatchWriteCall::DeliverResult() {
  if (!ops_.empty()) host_.state().NoteWrites(outcome_, ops_, results_);
  if (outcome_ != Outcome::kOk) return Answer(FromBatchResults(outcome_, ops_, results_));
  for (size_t i = 0; i < ops_.size(); ++i) host_.recorder().RecordWrite(ops_[i], results_[i]);
  const grpc::Slice wire = WriteResultsOnWire(results_);
  response() = grpc::ByteBuffer(&wire, 1);
  Answer(grpc::Status::OK);
}

}  // namespace lodgekv::server
