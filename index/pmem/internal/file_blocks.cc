#include "index/pmem/internal/file_blocks.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "index/pmem/pool_path.h"

namespace lodgekv::pmem {
namespace {

constexpr uint64_t kStatBlock = 512;  // the unit of st_blocks

struct Hole {
  off_t begin;
  off_t bytes;
};

// If the file system cannot tell, there are none. A block that was allocated and never written
// counts as a hole: allocating it again changes nothing.
std::vector<Hole> HolesOf(int fd, off_t end) {
  std::vector<Hole> holes;
  for (off_t at = 0; at < end;) {
    const off_t begin = lseek(fd, at, SEEK_HOLE);
    if (begin < 0 || begin >= end) break;
    const off_t data = lseek(fd, begin, SEEK_DATA);
    if (data < 0 && errno != ENXIO) break;
    at = data < 0 ? end : std::min(data, end);
    holes.push_back({begin, at - begin});
  }
  return holes;
}

uint64_t AllocatedBytes(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 ? static_cast<uint64_t>(st.st_blocks) * kStatBlock : 0;
}

// Bytes without blocks in the holes that were not preallocated.
uint64_t MissingBytes(int fd, const std::vector<Hole>& holes, uint64_t file_bytes) {
  uint64_t in_holes = 0;
  for (const Hole& hole : holes) in_holes += static_cast<uint64_t>(hole.bytes);
  const uint64_t allocated = std::min(AllocatedBytes(fd), file_bytes);
  return std::min(in_holes, file_bytes - allocated);
}

absl::Status NoRoom(const std::string& name, uint64_t missing, uint64_t free, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat(name, " is sparse, as a copy may be: ", missing,
                   " of its bytes have no room on the disk yet, "
                   "which has ",
                   free, " bytes free: ", std::generic_category().message(error),
                   "; make room, or move it to another disk"));
}

uint64_t FreeBytes(int fd) {
  struct statvfs system;
  if (fstatvfs(fd, &system) != 0) return UINT64_MAX;
  return static_cast<uint64_t>(system.f_bavail) * system.f_frsize;
}

// Fills one hole after the other. On an error the blocks allocated here are freed again.
int Allocate(int fd, const std::vector<Hole>& holes) {
  std::vector<Hole> filled;
  for (const Hole& hole : holes) {
    const uint64_t before = AllocatedBytes(fd);
    const int error = posix_fallocate(fd, hole.begin, hole.bytes);
    // A failed call may have allocated some.
    if (AllocatedBytes(fd) > before) filled.push_back(hole);
    if (error == 0) continue;
    for (const Hole& done : filled) {
      (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, done.begin, done.bytes);
    }
    return error;
  }
  return 0;
}

}  // namespace

absl::Status FillHoles(int fd, const std::string& name) {
  struct stat st;
  if (fstat(fd, &st) != 0) return ErrnoStatus(errno, absl::StrCat("cannot look at ", name));
  if (!S_ISREG(st.st_mode)) return absl::OkStatus();
  const std::vector<Hole> holes = HolesOf(fd, st.st_size);
  if (holes.empty()) return absl::OkStatus();
  const uint64_t missing = MissingBytes(fd, holes, static_cast<uint64_t>(st.st_size));
  // Checked first: a disk that is completely full, even for a moment, affects everybody.
  const uint64_t free = FreeBytes(fd);
  if (missing > free) return NoRoom(name, missing, free, ENOSPC);
  const int error = Allocate(fd, holes);
  if (error == 0) return absl::OkStatus();
  if (error == ENOSPC || error == EDQUOT) return NoRoom(name, missing, free, error);
  return ErrnoStatus(error, absl::StrCat("cannot allocate the blocks of ", name));
}

absl::Status FillHoles(const std::string& path, const std::string& name) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::OkStatus();
  const absl::Cleanup closer = [fd] { close(fd); };
  // Like libpmemobj while it has the file open.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return absl::OkStatus();
  return FillHoles(fd, name);
}

}  // namespace lodgekv::pmem
