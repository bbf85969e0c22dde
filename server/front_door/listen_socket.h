// The sockets that an address of the configuration stands for: host:port, [IPv6]:port, unix:/path.
//
// A host is resolved, and each of its addresses is listened on, all with one port. 0.0.0.0 and [::]
// both mean every address of the machine, of IPv4 and IPv6. A Unix socket is its owner's alone
// (mode 0600); a socket file that nobody answers at is replaced.
//
// INVARIANT  No two daemons share a port: a port in use is refused, also where only one of a
//            host's addresses has it in use. The file of a Unix socket is removed with the object,
//            if it is still the one that was made.
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
  // The error's message says why in words.
  static absl::StatusOr<ListenSocket> Open(const std::string& address);
  ListenSocket(ListenSocket&& other) noexcept;
  ListenSocket& operator=(ListenSocket&&) = delete;
  ~ListenSocket();

  const std::vector<UniqueFd>& sockets() const { return sockets_; }
  // With the port that was chosen where 0 was asked for.
  const std::string& address() const { return address_; }

 private:
  ListenSocket() = default;
  absl::Status OpenUnix(const std::string& path);
  absl::Status OpenHost(const std::string& host, const std::string& port);

  std::vector<UniqueFd> sockets_;
  std::string address_;
  std::string unix_path_;  // empty: none was made
  dev_t unix_device_ = 0;
  ino_t unix_inode_ = 0;
};

// True where the address is of a Unix socket.
bool IsUnixAddress(std::string_view address);

}  // namespace lodgekv::server
