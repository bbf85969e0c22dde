#include "server/base/listen_error.h"

#include <netdb.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace lodgekv::server {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

bool IsUnix(const std::string& address) { return address.rfind(kUnixPrefix, 0) == 0; }

}  // namespace

bool UnixSocketInUse(const std::string& address) {
  sockaddr_un peer{};
  peer.sun_family = AF_UNIX;
  if (!IsUnix(address) || address.size() - kUnixPrefix.size() >= sizeof(peer.sun_path))
    return false;
  address.copy(peer.sun_path, sizeof(peer.sun_path) - 1, kUnixPrefix.size());
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (socket_fd < 0) return false;
  const int connected = connect(socket_fd, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer));
  close(socket_fd);
  return connected == 0;
}

std::string BindErrorText(int error) {
  if (error == EADDRINUSE) return "another process is using it";
  if (error == EADDRNOTAVAIL) return "no network interface of this machine has that address";
  return std::strerror(error);
}

absl::Status ListenError(std::string_view field, const std::string& address, std::string_view why) {
  return absl::UnavailableError(fmt::format("cannot listen on {} ({}): {}", address, field, why));
}

}  // namespace lodgekv::server
