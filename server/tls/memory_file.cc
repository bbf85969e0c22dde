#include "server/tls/memory_file.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace lodgekv::server {
namespace {

absl::Status MemoryFileError(std::string_view what) {
  return absl::InternalError(
      fmt::format("a file in memory cannot be {}: {}", what, std::strerror(errno)));
}

// Returns the descriptor.
absl::StatusOr<int> Make(std::string_view content, int64_t generation) {
  const int fd = memfd_create("lodgekv", MFD_CLOEXEC);
  if (fd < 0) return MemoryFileError("created");
  const std::array<timespec, 2> times{timespec{generation, 0}, timespec{generation, 0}};
  if (write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()) &&
      futimens(fd, times.data()) == 0) {
    return fd;
  }
  absl::Status status = MemoryFileError("written");
  close(fd);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryFile>> MemoryFile::Create(std::string_view content) {
  const absl::StatusOr<int> fd = Make(content, 1);
  if (!fd.ok()) return fd.status();
  std::unique_ptr<MemoryFile> file(new MemoryFile(*fd));
  if (access(file->path().c_str(), R_OK) != 0)
    return MemoryFileError("opened through /proc/self/fd");
  return file;
}

MemoryFile::~MemoryFile() { close(fd_); }

std::string MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", fd_); }

absl::Status MemoryFile::Replace(std::string_view content) {
  const absl::StatusOr<int> fresh = Make(content, generation_ + 1);
  if (!fresh.ok()) return fresh.status();
  const bool replaced = dup3(*fresh, fd_, O_CLOEXEC) >= 0;
  absl::Status status = replaced ? absl::OkStatus() : MemoryFileError("replaced");
  close(*fresh);
  if (replaced) ++generation_;
  return status;
}

}  // namespace lodgekv::server
