// Between the types of lodgekv_client.h and those of gRPC and kv.proto.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/lodgekv_client.h"
#include "google/rpc/status.pb.h"
#include "lodgekv/v1/kv.pb.h"

namespace lodgekv::client {

using CostTaker = std::function<void(const v1::Cost&)>;

// `details`: a serialized google.rpc.Status, or nothing.
inline absl::Status MakeStatus(int code, const std::string& message, std::string details) {
  absl::Status result(static_cast<absl::StatusCode>(code), message);
  if (!details.empty()) result.SetPayload(kDetailsUrl, absl::Cord(std::move(details)));
  return result;
}

inline absl::Status ToAbsl(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return MakeStatus(status.error_code(), status.error_message(), status.error_details());
}

// As an answer of a session bears it; absent is OK.
inline absl::Status ToAbsl(const google::rpc::Status& status) {
  if (status.code() == 0) return absl::OkStatus();
  return MakeStatus(status.code(), status.message(), status.SerializeAsString());
}

inline void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
  if (timeout == absl::InfiniteDuration()) return;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

inline google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return proto;
}

// The fields common to PutRequest, DeleteRequest and Operation.
template <typename Request>
void SetCondition(const WriteCondition& condition, Request& request) {
  if (condition.if_absent) request.set_condition(v1::CONDITION_IF_ABSENT);
  if (condition.if_present) request.set_condition(v1::CONDITION_IF_PRESENT);
  if (condition.if_version) {
    request.set_condition(v1::CONDITION_IF_VERSION);
    request.set_if_version(*condition.if_version);
  }
}

inline void SetWrite(const BatchOp& op, v1::Operation& operation) {
  operation.set_kind(op.value ? v1::OPERATION_KIND_PUT : v1::OPERATION_KIND_DELETE);
  operation.set_key(op.key);
  if (op.value) operation.set_value(*op.value);
  SetCondition(op.options.condition, operation);
  if (op.options.ttl) *operation.mutable_ttl() = ToProto(*op.options.ttl);
}

template <typename Answer>
std::optional<absl::Time> ExpireTime(const Answer& answer) {
  if (!answer.has_expire_time()) return std::nullopt;
  return absl::FromUnixSeconds(answer.expire_time().seconds()) +
         absl::Nanoseconds(answer.expire_time().nanos());
}

// GetResponse, Lookup and OperationResult have the same fields.
template <typename Answer>
GetResult ToGetResult(Answer&& answer) {
  return {answer.found(), std::move(*answer.mutable_value()), answer.version(), ExpireTime(answer)};
}

}  // namespace lodgekv::client
