#include "server/front_door/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "server/base/listen_error.h"

namespace lodgekv::server {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;

absl::Status SocketError(std::string_view why) {
  return absl::UnavailableError({why.data(), why.size()});
}

struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;

  bool operator==(const Endpoint& other) const {
    return size == other.size && std::memcmp(&address, &other.address, size) == 0;
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  int family() const { return address.ss_family; }
  in_port_t* port() {
    if (family() == AF_INET6) return &reinterpret_cast<sockaddr_in6*>(&address)->sin6_port;
    return &reinterpret_cast<sockaddr_in*>(&address)->sin_port;
  }
  bool IsWildcard() const {
    if (family() == AF_INET6) {
      return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr);
    }
    return reinterpret_cast<const sockaddr_in*>(&address)->sin_addr.s_addr == INADDR_ANY;
  }
};

Endpoint Wildcard(int family, in_port_t port) {
  Endpoint endpoint;
  endpoint.address.ss_family = static_cast<sa_family_t>(family);
  endpoint.size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  *endpoint.port() = port;
  return endpoint;
}

absl::StatusOr<std::vector<Endpoint>> Resolve(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return SocketError(fmt::format("the host name cannot be resolved: {}", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    Endpoint endpoint;
    std::memcpy(&endpoint.address, info->ai_addr, info->ai_addrlen);
    endpoint.size = info->ai_addrlen;
    // Some resolvers list an address twice.
    if (std::find(endpoints.begin(), endpoints.end(), endpoint) == endpoints.end()) {
      endpoints.push_back(endpoint);
    }
  }
  return endpoints;
}

void SetOption(int fd, int level, int option, int value) {
  // An option that fails only costs speed, or the bind reports the cause.
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

// Returns 0 or errno. Accepted sockets inherit TCP_NODELAY.
int Bind(const Endpoint& endpoint, UniqueFd& socket_fd) {
  socket_fd.Reset(socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_fd) return errno;
  SetOption(socket_fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  SetOption(socket_fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (endpoint.family() == AF_INET6) SetOption(socket_fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket_fd.get(), endpoint.get(), endpoint.size) != 0) return errno;
  return listen(socket_fd.get(), SOMAXCONN) == 0 ? 0 : errno;
}

in_port_t PortOf(int socket_fd) {
  Endpoint bound;
  bound.size = sizeof(bound.address);
  getsockname(socket_fd, reinterpret_cast<sockaddr*>(&bound.address), &bound.size);
  return *bound.port();
}

// A name may have an address of a family that this machine does not support.
bool IsAbsentAddress(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

// Removes the file of a socket on which no process listens, and nothing else.
void RemoveStaleSocket(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) unlink(path.c_str());
}

}  // namespace

bool IsUnixAddress(std::string_view address) {
  return address.substr(0, kUnixPrefix.size()) == kUnixPrefix;
}

absl::StatusOr<ListenSocket> ListenSocket::Open(const std::string& address) {
  ListenSocket listener;
  absl::Status status;
  const size_t colon = address.rfind(':');
  if (IsUnixAddress(address)) {
    listener.address_ = address;
    status = listener.OpenUnix(address.substr(kUnixPrefix.size()));
  } else if (colon == std::string::npos) {
    status = SocketError("it has no port");
  } else {
    std::string host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    status = listener.OpenHost(host, address.substr(colon + 1));
    if (status.ok()) {
      listener.address_ = fmt::format("{}:{}", address.substr(0, colon),
                                      ntohs(PortOf(listener.sockets_.front().get())));
    }
  }
  if (!status.ok()) return status;
  return listener;
}

absl::Status ListenSocket::OpenHost(const std::string& host, const std::string& port) {
  absl::StatusOr<std::vector<Endpoint>> endpoints = Resolve(host, port);
  if (!endpoints.ok()) return endpoints.status();
  if (endpoints->front().IsWildcard()) {
    const in_port_t number = *endpoints->front().port();
    UniqueFd both;
    const int error = Bind(Wildcard(AF_INET6, number), both);
    if (error == 0) {
      sockets_.push_back(std::move(both));
      return absl::OkStatus();
    }
    if (!IsAbsentAddress(error)) return SocketError(BindErrorText(error));
    *endpoints = {Wildcard(AF_INET, number)};
  }
  std::optional<int> absent;
  for (Endpoint& endpoint : *endpoints) {
    if (!sockets_.empty()) *endpoint.port() = PortOf(sockets_.front().get());
    UniqueFd socket_fd;
    const int error = Bind(endpoint, socket_fd);
    if (error == 0) {
      sockets_.push_back(std::move(socket_fd));
    } else if (IsAbsentAddress(error)) {
      absent = error;
    } else {
      return SocketError(BindErrorText(error));
    }
  }
  if (!sockets_.empty()) return absl::OkStatus();
  return SocketError(BindErrorText(absent.value_or(EADDRNOTAVAIL)));
}

absl::Status ListenSocket::OpenUnix(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) return SocketError(kUnixPathRefused);
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  if (UnixSocketInUse(address_)) return SocketError(BindErrorText(EADDRINUSE));
  UniqueFd socket_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_fd) return SocketError(BindErrorText(errno));
  RemoveStaleSocket(path);
  // The file is created with the mode of the socket, so that no other user can open it at any
  // moment.
  if (fchmod(socket_fd.get(), kOwnerOnly) != 0 ||
      bind(socket_fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    return SocketError(errno == EADDRINUSE ? BindErrorText(errno) : std::string(kUnixPathRefused));
  }
  unix_path_ = path;
  struct stat made {};
  if (lstat(path.c_str(), &made) == 0) {
    unix_device_ = made.st_dev;
    unix_inode_ = made.st_ino;
  }
  if (listen(socket_fd.get(), SOMAXCONN) != 0) return SocketError(BindErrorText(errno));
  sockets_.push_back(std::move(socket_fd));
  return absl::OkStatus();
}

ListenSocket::ListenSocket(ListenSocket&& other) noexcept
    : sockets_(std::move(other.sockets_)),
      address_(std::move(other.address_)),
      unix_path_(std::exchange(other.unix_path_, {})),
      unix_device_(other.unix_device_),
      unix_inode_(other.unix_inode_) {}

ListenSocket::~ListenSocket() {
  struct stat now {};
  if (unix_path_.empty() || lstat(unix_path_.c_str(), &now) != 0) return;
  if (now.st_dev == unix_device_ && now.st_ino == unix_inode_) unlink(unix_path_.c_str());
}

}  // namespace lodgekv::server
