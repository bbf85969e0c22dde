// Connections of a stub of gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/server_bench/put_driver.h"

namespace lodgekv::server_bench {

// Of a call that begins now.
inline std::chrono::system_clock::time_point AnswerDeadline() {
  return std::chrono::system_clock::now() + kAnswerTimeout;
}

// "WHAT failed: code 8: ...".
absl::Status CallFailed(std::string_view what, const grpc::Status& status);

// A connection for each.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> ConnectChannels(
    const std::string& server, unsigned count);

}  // namespace lodgekv::server_bench
