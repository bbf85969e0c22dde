#include "bench/server_bench/loopback.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/server_bench/put_driver.h"

namespace lodgekv::server_bench {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

template <class Address>
LocalAddress Stored(const Address& address) {
  LocalAddress local;
  std::memcpy(&local.storage, &address, sizeof(address));
  local.bytes = sizeof(address);
  return local;
}

absl::StatusOr<LocalAddress> UnixAddress(std::string_view path) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a path of a unix socket has 1 to ", sizeof(address.sun_path) - 1, " bytes"));
  }
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  return Stored(address);
}

}  // namespace

absl::StatusOr<LocalAddress> ReadLocalAddress(const std::string& server) {
  if (server.starts_with(kUnixPrefix)) {
    return UnixAddress(std::string_view(server).substr(kUnixPrefix.size()));
  }
  const std::vector<std::string> parts = absl::StrSplit(server, absl::MaxSplits(':', 1));
  uint32_t port = 0;
  if (parts.size() != 2 || parts[0] != "127.0.0.1" || !absl::SimpleAtoi(parts[1], &port) ||
      port == 0 || port > UINT16_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("the address is '", server, "', it has to be 127.0.0.1:PORT or unix:PATH"));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return Stored(address);
}

absl::StatusOr<int> ConnectTo(const LocalAddress& address) {
  const int family = address.storage.ss_family;
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ErrnoToStatus(errno, "socket");
  const int on = 1;
  const timeval timeout{.tv_sec = kAnswerTimeout.count(), .tv_usec = 0};
  if (family == AF_INET) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  const auto* to = reinterpret_cast<const sockaddr*>(&address.storage);
  if (connect(fd, to, address.bytes) == 0) return fd;
  const int error = errno;
  close(fd);
  return absl::ErrnoToStatus(error, "cannot connect");
}

}  // namespace lodgekv::server_bench
