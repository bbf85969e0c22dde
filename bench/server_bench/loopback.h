// Addresses of servers on this machine.
#pragma once

#include <sys/socket.h>

#include <string>

#include "absl/status/statusor.h"

namespace lodgekv::server_bench {

struct LocalAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
};

// "127.0.0.1:PORT" or "unix:PATH" alone: the servers measured run on this machine.
absl::StatusOr<LocalAddress> ReadLocalAddress(const std::string& server);

// A connected, blocking socket that does not delay what is sent, with kAnswerTimeout.
absl::StatusOr<int> ConnectTo(const LocalAddress& address);

}  // namespace lodgekv::server_bench
