// The service manager's end of NOTIFY_SOCKET.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

namespace lodgekv::server::testing {

class NotifySocket {
 public:
  explicit NotifySocket(std::string path)
      : path_(std::move(path)), fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path_.size(), sizeof(address.sun_path));
    std::memcpy(address.sun_path, path_.data(), path_.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~NotifySocket() { close(fd_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  const std::string& path() const { return path_; }

  // The next message; empty if none arrives within ten seconds.
  std::string Receive() { return ReceiveWithin(10'000); }
  // A message that has already arrived, or empty.
  std::string ReceiveNow() { return ReceiveWithin(0); }

 private:
  std::string ReceiveWithin(int milliseconds) {
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, milliseconds) != 1) return "";
    std::array<char, 4096> text;
    const ssize_t n = recv(fd_, text.data(), text.size(), 0);
    return n > 0 ? std::string(text.data(), static_cast<size_t>(n)) : "";
  }

  const std::string path_;
  const int fd_;
};

}  // namespace lodgekv::server::testing
