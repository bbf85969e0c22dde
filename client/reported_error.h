// For tests: an error as the server reports one, with details.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace lodgekv::client {

template <typename Detail>
void AddDetail(const Detail& detail, google::rpc::Status& status) {
  status.add_details()->PackFrom(detail);
}

inline google::rpc::Status ReportedError(grpc::StatusCode code, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("lodgekv");
  (*info.mutable_metadata())["limit"] = "4096";
  google::rpc::BadRequest bad;
  bad.add_field_violations()->set_field("key");
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(250'000'000);
  google::rpc::Status status;
  status.set_code(code);
  status.set_message("said by the server");
  AddDetail(info, status);
  AddDetail(bad, status);
  AddDetail(retry, status);
  return status;
}

inline grpc::Status ErrorWith(grpc::StatusCode code, const std::string& reason) {
  const google::rpc::Status status = ReportedError(code, reason);
  return {code, status.message(), status.SerializeAsString()};
}

}  // namespace lodgekv::client
