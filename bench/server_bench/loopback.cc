#include "bench/server_bench/loopback.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/server_bench/put_driver.h"

namespace lodgekv::server_bench {

absl::StatusOr<sockaddr_in> LoopbackAddress(const std::string& server) {
  const std::vector<std::string> parts = absl::StrSplit(server, absl::MaxSplits(':', 1));
  uint32_t port = 0;
  if (parts.size() != 2 || parts[0] != "127.0.0.1" || !absl::SimpleAtoi(parts[1], &port) ||
      port == 0 || port > UINT16_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("the address is '", server, "', it has to be 127.0.0.1:PORT"));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

absl::StatusOr<int> ConnectTo(const sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "socket");
  const int on = 1;
  const timeval timeout{.tv_sec = kAnswerTimeout.count(), .tv_usec = 0};
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  const int error = errno;
  close(fd);
  return absl::ErrnoToStatus(error, "cannot connect");
}

}  // namespace lodgekv::server_bench
