#include "index/pmem/durable_rename.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "index/pmem/pool_path.h"

namespace lodgekv::pmem {
namespace {

absl::Status SyncDirectoryOf(const std::string& path) {
  const std::string directory = std::filesystem::absolute(path).parent_path().string();
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open directory ", directory));
  const absl::Cleanup closer = [fd] { close(fd); };
  if (fsync(fd) == 0 || errno == EINVAL) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot sync directory ", directory));
}

}  // namespace

absl::Status RenameDurably(const std::string& from, const std::string& to, bool replace) {
  int result =
      renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), replace ? 0 : RENAME_NOREPLACE);
  if (result != 0 && errno == EINVAL && !replace) {
    // For file systems without RENAME_NOREPLACE.
    result = link(from.c_str(), to.c_str());
    if (result == 0) unlink(from.c_str());
  }
  if (result != 0) return ErrnoStatus(errno, absl::StrCat("cannot rename ", from, " to ", to));
  return SyncDirectoryOf(to);
}

}  // namespace lodgekv::pmem
