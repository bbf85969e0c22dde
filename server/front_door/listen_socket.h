// The listening sockets of an address of the configuration: host:port, [IPv6]:port, unix:/path.
//
// A host is resolved, and all its addresses are bound to the same port. 0.0.0.0 and [::] both mean
// every address of the machine, of IPv4 and IPv6. A Unix socket has mode 0600; a socket file on
// which no process listens is replaced.
//
// INVARIANT  No two daemons share a port: a port in use is refused, even if only one of a host's
//            addresses uses it. The file of a Unix socket is removed with the object, if it is
//            still the one it created.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/front_door/unique_fd.h"

namespace lodgekv::server {

class ListenSocket {
 public:
  // The error's message says in words what failed.
  static absl::StatusOr<ListenSocket> Open(const std::string& address);
  ListenSocket(ListenSocket&& other) noexcept;
  ListenSocket& operator=(ListenSocket&&) = delete;
  ~ListenSocket();

  const std::vector<UniqueFd>& sockets() const { return sockets_; }
  // With the port that was chosen if the address has port 0.
  const std::string& address() const { return address_; }

 private:
  ListenSocket() = default;
  absl::Status OpenUnix(const std::string& path);
  absl::Status OpenHost(const std::string& host, const std::string& port);

  std::vector<UniqueFd> sockets_;
  std::string address_;
  std::string unix_path_;  // empty: none was created
  dev_t unix_device_ = 0;
  ino_t unix_inode_ = 0;
};

// True for the address of a Unix socket.
bool IsUnixAddress(std::string_view address);

}  // namespace lodgekv::server
