// Preloaded into lodgekvd: while the file that FAILING_SYNC_WHILE names exists, the calls that
// FAILING_SYNC_CALLS names (pwrite, msync, fdatasync; separated by commas) fail as they do on a
// broken disk. Of the writes those to a journal alone.
#include <limits.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool Fails(const char* call) {
  const char* broken = std::getenv("FAILING_SYNC_WHILE");
  const char* calls = std::getenv("FAILING_SYNC_CALLS");
  return broken != nullptr && calls != nullptr && std::strstr(calls, call) != nullptr &&
         access(broken, F_OK) == 0;
}

bool IsJournal(int fd) {
  char link[64];
  char path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = '\0';
  constexpr char kSuffix[] = ".journal";
  const size_t suffix = sizeof kSuffix - 1;
  const auto all = static_cast<size_t>(length);
  return all >= suffix && std::strcmp(path + all - suffix, kSuffix) == 0;
}

}  // namespace

extern "C" {

int fdatasync(int fd) {
  if (!Fails("fdatasync")) return static_cast<int>(syscall(SYS_fdatasync, fd));
  errno = EIO;
  return -1;
}

int msync(void* address, size_t bytes, int flags) {
  if (!Fails("msync")) return static_cast<int>(syscall(SYS_msync, address, bytes, flags));
  errno = EIO;
  return -1;
}

ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  if (!Fails("pwrite") || !IsJournal(fd)) return syscall(SYS_pwrite64, fd, from, bytes, offset);
  errno = EIO;
  return -1;
}

}  // extern "C"
