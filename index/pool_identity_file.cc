#include "index/pool_identity_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "index/pmem/durable_rename.h"
#include "index/pmem/pool_path.h"

namespace lodgekv {
namespace {

constexpr std::string_view kMark = "lodgekv pool ";  // followed by the id and a line feed
constexpr size_t kIdDigits = 32;
constexpr mode_t kFileMode = 0600;

// Returns the id of a valid line, otherwise nothing.
std::optional<std::string> IdIn(std::string_view line) {
  const bool framed = line.size() == kMark.size() + kIdDigits + 1 &&
                      line.substr(0, kMark.size()) == kMark && line.back() == '\n';
  if (!framed) return std::nullopt;
  const std::string_view id = line.substr(kMark.size(), kIdDigits);
  const bool hex = std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  return hex ? std::optional<std::string>(id) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::optional<std::string>> PoolIdentityFile::Read() const {
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return std::nullopt;
  const std::string cannot = absl::StrCat("cannot read the pool's identity file ", path_);
  if (fd < 0) return pmem::ErrnoStatus(errno, cannot);
  const absl::Cleanup closer = [fd] { close(fd); };
  std::array<char, 256> buffer;  // longer than any valid line
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got < 0) return pmem::ErrnoStatus(errno, cannot);
  if (auto id = IdIn({buffer.data(), static_cast<size_t>(got)})) return id;
  return absl::DataLossError(
      absl::StrCat("the pool's identity file ", path_,
                   " is damaged: it must be one line, \"lodgekv pool\" and the ", kIdDigits,
                   " hex digits of the pool's id; if the pool is the right one "
                   "(the log of an earlier start has its id), remove the file, and the next "
                   "start writes it again"));
}

absl::Status PoolIdentityFile::Write(const std::string& pool_id) const {
  const std::string unfinished = path_ + ".creating";
  const std::string cannot = absl::StrCat("cannot write the pool's identity file ", path_);
  const int fd =
      open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kFileMode);
  if (fd < 0) return pmem::ErrnoStatus(errno, cannot);
  const std::string line = absl::StrCat(std::string(kMark), pool_id, "\n");
  const bool written =
      write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) && fsync(fd) == 0;
  absl::Status status = written ? absl::OkStatus() : pmem::ErrnoStatus(errno, cannot);
  close(fd);
  if (status.ok()) status = pmem::RenameDurably(unfinished, path_, /*replace=*/false);
  if (!status.ok()) unlink(unfinished.c_str());
  return status;
}

}  // namespace lodgekv
