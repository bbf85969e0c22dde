#include "base/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lodgekv {
namespace {

constexpr size_t kPieceBytes = 64 << 10;

struct Descriptor {
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }

  const int fd;
};

absl::Status CannotRead() {
  return absl::NotFoundError(absl::StrCat("cannot be read: ", std::strerror(errno)));
}

absl::Status CheckKind(int fd, FileKind kind) {
  struct stat what {};
  if (fstat(fd, &what) != 0) return CannotRead();
  if (S_ISREG(what.st_mode)) return absl::OkStatus();
  if (S_ISDIR(what.st_mode)) {
    return absl::InvalidArgumentError("is a directory; it must be a regular file");
  }
  if (kind == FileKind::kAny) return absl::OkStatus();
  return absl::InvalidArgumentError("is a pipe or a device; it must be a regular file");
}

}  // namespace

absl::StatusOr<std::string> ReadToEnd(int fd, size_t max_bytes) {
  std::string content;
  std::array<char, kPieceBytes> piece{};
  for (;;) {
    const ssize_t n = read(fd, piece.data(), piece.size());
    if (n == 0) return content;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CannotRead();
    if (static_cast<size_t>(n) > max_bytes - content.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("is larger than ", max_bytes, " bytes, the most that is read of it"));
    }
    content.append(piece.data(), static_cast<size_t>(n));
  }
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, FileKind kind,
                                          size_t max_bytes) {
  // Without O_NONBLOCK opening a pipe would wait for a writer.
  const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | (kind == FileKind::kRegular ? O_NONBLOCK : 0);
  const Descriptor file(open(path.c_str(), flags));
  if (file.fd < 0) return CannotRead();
  absl::Status status = CheckKind(file.fd, kind);
  if (!status.ok()) return status;
  return ReadToEnd(file.fd, max_bytes);
}

}  // namespace lodgekv
