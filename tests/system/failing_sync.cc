// Preloaded into lodgekvd: while the file that FAILING_SYNC_WHILE names exists, every fdatasync
// fails as it does on a broken disk.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

extern "C" int fdatasync(int fd) {
  const char* broken = std::getenv("FAILING_SYNC_WHILE");
  if (broken == nullptr || access(broken, F_OK) != 0) {
    return static_cast<int>(syscall(SYS_fdatasync, fd));
  }
  errno = EIO;
  return -1;
}
