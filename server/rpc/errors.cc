#include "server/rpc/errors.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <utility>

#include "google/rpc/error_details.pb.h"

namespace lodgekv::server {
namespace {

// Long enough that a refused client does not retry at once, short enough that it does not idle.
constexpr uint64_t kOverloadRetryMs = 50;
constexpr uint64_t kBusyRetryMs = 1'000;
constexpr uint64_t kRecoveringRetryMs = 500;
constexpr uint64_t kDrainingRetryMs = 1'000;

struct CodeRow {
  absl::StatusCode absl;
  grpc::StatusCode grpc;
  std::string_view reason;
};

constexpr std::array<CodeRow, 16> kCodes{{
    {absl::StatusCode::kCancelled, grpc::StatusCode::CANCELLED, "CANCELLED"},
    {absl::StatusCode::kUnknown, grpc::StatusCode::UNKNOWN, "UNKNOWN"},
    {absl::StatusCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT, "INVALID_ARGUMENT"},
    {absl::StatusCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"},
    {absl::StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND, "NOT_FOUND"},
    {absl::StatusCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS, "ALREADY_EXISTS"},
    {absl::StatusCode::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED, "PERMISSION_DENIED"},
    {absl::StatusCode::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED,
     "RESOURCE_EXHAUSTED"},
    {absl::StatusCode::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION,
     "FAILED_PRECONDITION"},
    {absl::StatusCode::kAborted, grpc::StatusCode::ABORTED, "ABORTED"},
    {absl::StatusCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE, "OUT_OF_RANGE"},
    {absl::StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED, "UNIMPLEMENTED"},
    {absl::StatusCode::kInternal, grpc::StatusCode::INTERNAL, "INTERNAL"},
    {absl::StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE, "UNAVAILABLE"},
    {absl::StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS, "DATA_LOSS"},
    {absl::StatusCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED, "UNAUTHENTICATED"},
}};

// For an error about one operation of a batch: prefixes the message with "operation 7: ".
std::string AtOperation(int index, std::string_view message) {
  return index < 0 ? std::string(message) : fmt::format("operation {}: {}", index, message);
}

std::string_view HolderOf(AdmissionLimit limit) {
  switch (limit) {
    case AdmissionLimit::kOperations:
    case AdmissionLimit::kBytes: return "the server";
    case AdmissionLimit::kPeer: return "this client's address";
    case AdmissionLimit::kConnection: return "this connection";
  }
  return "the server";
}

std::string_view ConditionName(Condition condition) {
  switch (condition) {
    case Condition::kNone: return "NONE";
    case Condition::kIfAbsent: return "IF_ABSENT";
    case Condition::kIfPresent: return "IF_PRESENT";
    case Condition::kIfVersion: return "IF_VERSION";
  }
  return "NONE";
}

std::string DescribeFailure(const WriteResult& result, Condition condition) {
  switch (condition) {
    case Condition::kIfAbsent: return "the key has a live value, and the condition is if-absent";
    case Condition::kIfPresent: return "the key has no live value, and the condition is if-present";
    default: break;
  }
  if (!result.found) return "the key has no live value, and the condition is if-version";
  return fmt::format("the key's version is {}, not the one of the condition if-version",
                     result.version);
}

grpc::Status ConditionFailedError(const WriteResult& result, const OperationPlace& place) {
  const std::string why = DescribeFailure(result, place.condition);
  ErrorBuilder error(grpc::StatusCode::FAILED_PRECONDITION, "CONDITION_FAILED",
                     AtOperation(place.index, why));
  error.Metadata("found", result.found ? "true" : "false")
      .Metadata("version", std::to_string(result.version))
      .Precondition(ConditionName(place.condition),
                    place.index < 0 ? "key" : fmt::format("operations[{}].key", place.index), why);
  if (place.index >= 0) error.Metadata("operation", std::to_string(place.index));
  return error.Build();
}

grpc::Status PoolFullError(int index) {
  const std::string_view why =
      "the pool is full: reads, scans and deletes go on; delete something, "
      "or move to a larger pool";
  ErrorBuilder error(grpc::StatusCode::RESOURCE_EXHAUSTED, "POOL_FULL", AtOperation(index, why));
  return error.Quota("pool", why).Build();
}

grpc::Status DataLossError(int index) {
  return ErrorBuilder(grpc::StatusCode::DATA_LOSS, "DAMAGED_RECORD",
                      AtOperation(index,
                                  "the medium holds a damaged record for this key; run a "
                                  "check (lodgectl check) and restore it from a backup"))
      .Build();
}

grpc::Status MediumFailedError() {
  return ErrorBuilder(grpc::StatusCode::UNAVAILABLE, "MEDIUM_FAILED",
                      "the medium refused a sync; nothing more is acknowledged and the server ends")
      .Build();
}

// The server checks requests before the engine sees them, so this is a mistake of ours, or a
// feature that only the engine knows it does not have.
grpc::Status RefusedByEngineError(int index) {
  return ErrorBuilder(grpc::StatusCode::INVALID_ARGUMENT, "NOT_IN_KEY_FORMAT",
                      AtOperation(index,
                                  "the pool's key format does not take this operation: a "
                                  "length, a version or a ttl that it does not have"))
      .Build();
}

grpc::Status AbortedError() {
  return ErrorBuilder(grpc::StatusCode::ABORTED, "BATCH_ABORTED",
                      "nothing was applied, since another operation of the batch failed")
      .Build();
}

}  // namespace

ErrorBuilder::ErrorBuilder(grpc::StatusCode code, std::string_view reason, std::string_view message)
    : reason_(reason) {
  status_.set_code(static_cast<int>(code));
  status_.set_message(std::string(message));
}

void ErrorBuilder::Pack(const google::protobuf::Message& detail) {
  status_.add_details()->PackFrom(detail);
}

ErrorBuilder& ErrorBuilder::Metadata(std::string_view name, std::string_view value) {
  metadata_.emplace_back(name, value);
  return *this;
}

ErrorBuilder& ErrorBuilder::BadField(std::string_view field, std::string_view description) {
  google::rpc::BadRequest detail;
  auto* violation = detail.add_field_violations();
  violation->set_field(std::string(field));
  violation->set_description(std::string(description));
  Pack(detail);
  return *this;
}

ErrorBuilder& ErrorBuilder::RetryAfterMs(uint64_t milliseconds) {
  google::rpc::RetryInfo detail;
  detail.mutable_retry_delay()->set_seconds(static_cast<int64_t>(milliseconds / 1000));
  detail.mutable_retry_delay()->set_nanos(static_cast<int32_t>(milliseconds % 1000 * 1'000'000));
  Pack(detail);
  return *this;
}

ErrorBuilder& ErrorBuilder::Quota(std::string_view subject, std::string_view description) {
  google::rpc::QuotaFailure detail;
  auto* violation = detail.add_violations();
  violation->set_subject(std::string(subject));
  violation->set_description(std::string(description));
  Pack(detail);
  return *this;
}

ErrorBuilder& ErrorBuilder::Precondition(std::string_view type, std::string_view subject,
                                         std::string_view description) {
  google::rpc::PreconditionFailure detail;
  auto* violation = detail.add_violations();
  violation->set_type(std::string(type));
  violation->set_subject(std::string(subject));
  violation->set_description(std::string(description));
  Pack(detail);
  return *this;
}

grpc::Status ErrorBuilder::Build() {
  google::rpc::ErrorInfo info;
  info.set_reason(reason_);
  info.set_domain(std::string(kErrorDomain));
  for (const auto& [name, value] : metadata_) (*info.mutable_metadata())[name] = value;
  Pack(info);
  return {static_cast<grpc::StatusCode>(status_.code()), status_.message(),
          status_.SerializeAsString()};
}

grpc::Status InvalidFieldError(std::string_view field, std::string_view reason,
                               std::string_view message) {
  return ErrorBuilder(grpc::StatusCode::INVALID_ARGUMENT, reason, message)
      .BadField(field, message)
      .Build();
}

grpc::Status NotAMessageError() {
  return ErrorBuilder(grpc::StatusCode::INVALID_ARGUMENT, "NO_MESSAGE",
                      "the request is not a message of this call: its bytes cannot be parsed")
      .Build();
}

grpc::Status OverloadedError(const Admission::Verdict& verdict) {
  const std::string_view limit = kAdmissionLimitNames[static_cast<size_t>(verdict.limit)];
  const std::string message = fmt::format(
      "{} {} in flight as it may ({} is {}{}): nothing was done, try again",
      HolderOf(verdict.limit), verdict.of_bytes ? "holds as many bytes" : "has as many operations",
      limit, verdict.value, verdict.of_bytes ? " bytes" : "");
  return ErrorBuilder(grpc::StatusCode::RESOURCE_EXHAUSTED,
                      verdict.of_bytes ? "TOO_MANY_BYTES" : "TOO_MANY_OPERATIONS", message)
      .Quota(limit, message)
      .RetryAfterMs(kOverloadRetryMs)
      .Metadata("limit", limit)
      .Metadata("value", std::to_string(verdict.value))
      .Build();
}

grpc::Status BusyError(std::string_view message) {
  return ErrorBuilder(grpc::StatusCode::RESOURCE_EXHAUSTED, "BUSY", message)
      .RetryAfterMs(kBusyRetryMs)
      .Build();
}

grpc::Status RecoveringError() {
  return ErrorBuilder(grpc::StatusCode::UNAVAILABLE, "RECOVERING",
                      "the server is recovering its pool: nothing was done, try again")
      .RetryAfterMs(kRecoveringRetryMs)
      .Build();
}

grpc::Status DrainingError() {
  return ErrorBuilder(grpc::StatusCode::UNAVAILABLE, "DRAINING",
                      "the server is shutting down: nothing was done, try again")
      .RetryAfterMs(kDrainingRetryMs)
      .Build();
}

grpc::Status PoolGoneError() {
  return ErrorBuilder(
             grpc::StatusCode::UNAVAILABLE, "POOL_GONE",
             "a file of the server's pool was deleted, replaced or cut short while it "
             "served: nothing is read or written any more, until an operator has intervened")
      .Build();
}

grpc::Status DeadlinePassedError() {
  return ErrorBuilder(grpc::StatusCode::DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED",
                      "the deadline passed before the work began: nothing was done")
      .Build();
}

grpc::Status AnswerTooLargeError(uint64_t limit) {
  const std::string message = fmt::format(
      "the values of this batch are more than max_batch_size, {} bytes: ask for fewer keys at once",
      limit);
  return ErrorBuilder(grpc::StatusCode::RESOURCE_EXHAUSTED, "ANSWER_TOO_LARGE", message)
      .Quota("max_batch_size", message)
      .Build();
}

grpc::Status NotServedError(std::string_view call) {
  return ErrorBuilder(grpc::StatusCode::UNIMPLEMENTED, "NOT_SERVED",
                      fmt::format("this version of the server does not serve {}", call))
      .Metadata("call", call)
      .Build();
}

grpc::Status FromWriteResult(const WriteResult& result, const OperationPlace& place) {
  switch (result.outcome) {
    case Outcome::kOk: return grpc::Status::OK;
    case Outcome::kConditionFailed: return ConditionFailedError(result, place);
    case Outcome::kAborted: return AbortedError();
    case Outcome::kInvalidArgument: return RefusedByEngineError(place.index);
    case Outcome::kPoolFull: return PoolFullError(place.index);
    case Outcome::kDataLoss: return DataLossError(place.index);
    case Outcome::kMediumFailed: return MediumFailedError();
  }
  return ErrorBuilder(grpc::StatusCode::INTERNAL, "UNKNOWN_OUTCOME",
                      "the engine's answer is unknown")
      .Build();
}

grpc::Status FromReadOutcome(Outcome outcome, int index) {
  return FromWriteResult({.outcome = outcome}, {.index = index});
}

grpc::Status FromBatchResults(Outcome outcome, std::span<const WriteOp> ops,
                              std::span<const WriteResult> results) {
  if (outcome == Outcome::kOk) return grpc::Status::OK;
  const auto failed = std::find_if(results.begin(), results.end(), [](const WriteResult& result) {
    return result.outcome != Outcome::kOk && result.outcome != Outcome::kAborted;
  });
  if (failed == results.end()) return FromWriteResult({.outcome = outcome}, {});
  const auto index = static_cast<size_t>(failed - results.begin());
  return FromWriteResult(*failed,
                         {.condition = ops[index].condition, .index = static_cast<int>(index)});
}

std::string RpcStatusBytes(const grpc::Status& status) {
  if (!status.error_details().empty()) return status.error_details();
  google::rpc::Status message;
  message.set_code(status.error_code());
  message.set_message(status.error_message());
  return message.SerializeAsString();
}

grpc::Status FromAbsl(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  for (const CodeRow& row : kCodes) {
    if (row.absl == status.code()) {
      return ErrorBuilder(row.grpc, row.reason, std::string(status.message())).Build();
    }
  }
  return ErrorBuilder(grpc::StatusCode::UNKNOWN, "UNKNOWN", std::string(status.message())).Build();
}

}  // namespace lodgekv::server
