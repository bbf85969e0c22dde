#include "server/listen_error.h"

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

// What binding says when it is tried once more.
std::string WhyBindFails(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return fmt::format("the host name cannot be resolved: {}", gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  const int socket_fd = socket(found->ai_family, SOCK_STREAM, 0);
  if (socket_fd < 0) return std::strerror(errno);
  const int bound = bind(socket_fd, found->ai_addr, found->ai_addrlen);
  const int bind_error = errno;
  close(socket_fd);
  if (bound == 0) return "the address was in use a moment ago; try again";
  if (bind_error == EADDRINUSE) return "another process is using it";
  if (bind_error == EADDRNOTAVAIL) return "no network interface of this machine has that address";
  return std::strerror(bind_error);
}

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

absl::Status CannotListen(std::string_view field, const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string why;
  if (UnixSocketInUse(address)) {
    why = "another process is using it";
  } else if (IsUnix(address) || colon == std::string::npos) {
    why = "the path is not writable, or longer than 107 bytes";
  } else {
    std::string host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    why = WhyBindFails(host, address.substr(colon + 1));
  }
  return absl::UnavailableError(fmt::format("cannot listen on {} ({}): {}", address, field, why));
}

}  // namespace lodgekv::server
