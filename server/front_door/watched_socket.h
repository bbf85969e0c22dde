// The socket of a connection that has another owner, who may close it at any moment: reads its
// counts, and can end the connection.
//
// INVARIANT  Nothing is done to another socket that has got the same descriptor number after ours
//            was closed: a socket is identified by its inode, and is held by a descriptor of our
//            own while it is acted upon.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace lodgekv::server {

struct SocketUse {
  uint64_t bytes_read = 0;  // that its owner has read from it
  uint64_t bytes_sent = 0;  // that the remote end has acknowledged
};

class WatchedSocket {
 public:
  explicit WatchedSocket(int fd);

  // Nothing if it is closed. Zeros for a Unix socket, which counts no bytes. The counts may lack
  // bytes that move during the call; they never decrease from one call to the next.
  std::optional<SocketUse> Read();

  // Shuts the connection down in both directions: its owner notices, and closes it. Without effect
  // on a closed one.
  void End() const;
  // Resets the connection at once: nothing more is sent, and unread bytes are dropped.
  void Abort() const;

 private:
  bool IsOurs(int fd) const;

  int fd_;
  ino_t inode_ = 0;
  SocketUse seen_;  // by the last call of Read
};

}  // namespace lodgekv::server
