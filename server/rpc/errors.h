// How failures reach a client: a gRPC code, a message for people, and google.rpc details for
// programs. The codes and reasons are those that proto/lodgekv/v1/kv.proto promises; every error
// that the server answers is made here.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
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

// Builds one error. ErrorInfo is always there; the other details where they fit.
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

// A field of the request is wrong, whatever the store holds.
grpc::Status InvalidFieldError(std::string_view field, std::string_view reason,
                               std::string_view message);

// The bytes of a batch do not make up the message that they should be.
grpc::Status NotAMessageError();

// The server, the client's address or its connection has as much in hand as its limit allows.
grpc::Status OverloadedError(const Admission::Verdict& verdict);

// An operator's call that others have in hand already: `message` says which.
grpc::Status BusyError(std::string_view message);

grpc::Status RecoveringError();
grpc::Status DrainingError();
grpc::Status PoolGoneError();
grpc::Status DeadlinePassedError();
grpc::Status NotServedError(std::string_view call);

// Which operation an engine's answer is about.
struct OperationPlace {
  Condition condition = Condition::kNone;
  int index = -1;  // in a batch; -1: the call is the operation
};

// An engine's answer to a write that is not kOk, for people and programs.
grpc::Status FromWriteResult(const WriteResult& result, const OperationPlace& place);

// An engine's answer to a read that is not kOk. index as in OperationPlace.
grpc::Status FromReadOutcome(Outcome outcome, int index);

// What opening a pool, or the admin calls, can fail with.
grpc::Status FromAbsl(const absl::Status& status);

}  // namespace lodgekv::server
