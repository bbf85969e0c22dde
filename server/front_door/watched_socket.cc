#include "server/front_door/watched_socket.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>

#include "server/front_door/unique_fd.h"

namespace lodgekv::server {
WatchedSocket::WatchedSocket(int fd) : fd_(fd) {
  struct stat status {};
  if (fstat(fd, &status) == 0) inode_ = status.st_ino;
}

bool WatchedSocket::IsOurs(int fd) const {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == inode_;
}

std::optional<SocketUse> WatchedSocket::Read() {
  tcp_info info{};
  socklen_t size = sizeof(info);
  const bool counted = getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  int unread = 0;
  if (counted) (void)ioctl(fd_, FIONREAD, &unread);
  // If it is ours now, it was ours when its counts were read: a closed socket does not come back.
  if (!IsOurs(fd_)) return std::nullopt;
  if (!counted) return seen_;
  // Bytes that arrive between the two calls are in the unread count only, so the difference may
  // decrease. A caller that subtracts would take that for 2^64 bytes, and close the connection.
  const uint64_t received = info.tcpi_bytes_received;
  const uint64_t read = received - std::min(received, static_cast<uint64_t>(unread));
  seen_ = {.bytes_read = std::max(seen_.bytes_read, read), .bytes_sent = info.tcpi_bytes_acked};
  return seen_;
}

void WatchedSocket::End() const {
  const UniqueFd held(fcntl(fd_, F_DUPFD_CLOEXEC, 0));
  if (held && IsOurs(held.get())) (void)shutdown(held.get(), SHUT_RDWR);
}

void WatchedSocket::Abort() const {
  const UniqueFd held(fcntl(fd_, F_DUPFD_CLOEXEC, 0));
  if (!held || !IsOurs(held.get())) return;
  // Connecting it to AF_UNSPEC resets a TCP connection, drops unread bytes, and wakes the owner. A
  // flood whose window is full would not notice a shutdown for minutes.
  // owner. A flood whose window is full would not notice a shutdown for minutes.
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  if (connect(held.get(), &nobody, sizeof(nobody)) != 0) (void)shutdown(held.get(), SHUT_RDWR);
}

}  // namespace lodgekv::server
