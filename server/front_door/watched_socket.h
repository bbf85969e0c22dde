// A connection's socket that somebody else owns and closes at any moment: what it is doing, and its
// end.
//
// INVARIANT  Nothing is done to a socket that took the number of ours after it was closed: a socket
//            is known by its inode, and is held by a descriptor of our own while it is acted upon.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace lodgekv::server {

struct SocketUse {
  uint64_t bytes_read = 0;  // that its owner has taken from it
  uint64_t bytes_sent = 0;  // that the other end has acknowledged
};

class WatchedSocket {
 public:
  explicit WatchedSocket(int fd);

  // Nothing when it has been closed. Of a Unix socket, which counts no bytes, zeros. The counts may
  // be behind by what moves during the look, and never fall from one to the next.
  std::optional<SocketUse> Look();

  // Ends the connection in both directions: its owner notices, and closes it. Without effect on one
  // that is closed already.
  void End() const;
  // The same at once, without a word more and without what waits to be read.
  void Abort() const;

 private:
  bool IsOurs(int fd) const;

  int fd_;
  ino_t inode_ = 0;
  SocketUse seen_;  // by the last look
};

}  // namespace lodgekv::server
