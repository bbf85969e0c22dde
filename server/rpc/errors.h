// How failures reach a client: a gRPC code, a message for people, and google.rpc details for
// programs. The codes and reasons are those documented in proto/lodgekv/v1/kv.proto; every error
// that the server answers is made here.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "index/engine.h"
#include "server/rpc/admission.h"

namespace lodgekv::server {

inline constexpr std::string_view kErrorDomain = "lodgekv";

// Builds one error. It always has an ErrorInfo; the other details are added as needed.
class ErrorBuilder {
 public:
  ErrorBuilder(grpc::StatusCode code, std::string_view reason, std::string_view message);

  ErrorBuilder& Metadata(std::string_view name, std::string_view value);
  ErrorBuilder& BadField(std::string_view field, std::string_view description);
  ErrorBuilder& RetryAfterMs(uint64_t milliseconds);
  ErrorBuilder& Quota(std::string_view subject, std::string_view description);
  ErrorBuilder& Precondition(std::string_view type, std::string_view subject,
                             std::string_view description);

  grpc::Status Build();

 private:
  void Pack(const google::protobuf::Message& detail);

  std::string reason_;
  google::rpc::Status status_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

// A field of the request is invalid, whatever the store holds.
grpc::Status InvalidFieldError(std::string_view field, std::string_view reason,
                               std::string_view message);

// The bytes of a batch are not a valid message.
grpc::Status NotAMessageError();

// The work in flight of the server, the client's address or its connection is at its limit.
grpc::Status OverloadedError(const Admission::Verdict& verdict);

// An operator's call while others of its kind are running: `message` says which.
grpc::Status BusyError(std::string_view message);

// The values that a batch, or a message of a session, asks for are more than `limit` bytes.
grpc::Status AnswerTooLargeError(uint64_t limit);

grpc::Status RecoveringError();
grpc::Status DrainingError();
grpc::Status PoolGoneError();
grpc::Status DeadlinePassedError();
grpc::Status NotServedError(std::string_view call);

// The operation that an engine's result is about.
struct OperationPlace {
  Condition condition = Condition::kNone;
  int index = -1;  // in a batch; -1: the call is the operation
};

// The answer for a write whose outcome is not kOk.
grpc::Status FromWriteResult(const WriteResult& result, const OperationPlace& place);

// The answer for a read whose outcome is not kOk. index as in OperationPlace.
grpc::Status FromReadOutcome(Outcome outcome, int index);

// The answer for an atomic batch: the error of the operation that failed, not of one that was
// aborted because of it.
grpc::Status FromBatchResults(Outcome outcome, std::span<const WriteOp> ops,
                              std::span<const WriteResult> results);

// The error as a google.rpc.Status on the wire.
std::string RpcStatusBytes(const grpc::Status& status);

// The errors of opening a pool, and of the admin calls.
grpc::Status FromAbsl(const absl::Status& status);

}  // namespace lodgekv::server
