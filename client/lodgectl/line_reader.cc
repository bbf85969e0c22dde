#include "client/lodgectl/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lodgekv::lodgectl {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

}  // namespace

LineReader::LineReader(int fd, const Interruption* interruption, size_t max_line_bytes)
    : fd_(fd), interruption_(interruption), max_line_bytes_(max_line_bytes) {}

absl::Status LineReader::Next(std::string* line) {
  size_t searched = begin_;
  for (;;) {
    const size_t end = buffer_.find('\n', searched);
    const bool found = end != std::string::npos;
    const size_t length = (found ? end : buffer_.size()) - begin_;
    if (length > max_line_bytes_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the line is longer than ", max_line_bytes_, " bytes"));
    }
    if (found || at_end_) {
      done_ = !found && length == 0;
      ended_ = found;
      line->assign(buffer_, begin_, length);
      begin_ += length + (found ? 1 : 0);
      return absl::OkStatus();
    }
    buffer_.erase(0, begin_);
    begin_ = 0;
    searched = buffer_.size();
    absl::Status status = Fill();
    if (!status.ok()) return status;
  }
}

absl::Status LineReader::Fill() {
  static std::array<char, kPieceBytes> piece;
  for (;;) {
    if (interruption_ != nullptr) {
      std::array<pollfd, 2> ready{
          pollfd{.fd = fd_, .events = POLLIN, .revents = 0},
          pollfd{.fd = interruption_->fd(), .events = POLLIN, .revents = 0}};
      if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) {
        return absl::ErrnoToStatus(errno, "cannot be waited for");
      }
      if (interruption_->signal() != 0) return absl::CancelledError("interrupted");
    }
    const ssize_t n = read(fd_, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::DataLossError(absl::StrCat("cannot be read: ", std::strerror(errno)));
    at_end_ = n == 0;
    buffer_.append(piece.data(), static_cast<size_t>(n));
    return absl::OkStatus();
  }
}

}  // namespace lodgekv::lodgectl
