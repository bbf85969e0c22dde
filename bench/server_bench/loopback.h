// Addresses of servers on this machine.
#pragma once

#include <netinet/in.h>

#include <string>

#include "absl/status/statusor.h"

namespace lodgekv::server_bench {

// "127.0.0.1:PORT" alone: the servers measured run on this machine.
absl::StatusOr<sockaddr_in> LoopbackAddress(const std::string& server);

// A connected, blocking socket that does not delay what is sent, with kAnswerTimeout.
absl::StatusOr<int> ConnectTo(const sockaddr_in& address);

}  // namespace lodgekv::server_bench
