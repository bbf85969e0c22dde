#include "server/front_door/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <filesystem>
#include <system_error>

namespace lodgekv::server {
namespace {

uint64_t OpenDescriptors() {
  std::error_code error;
  uint64_t count = 0;
  std::filesystem::directory_iterator file("/proc/self/fd", error);
  while (!error && file != std::filesystem::directory_iterator()) {
    ++count;
    file.increment(error);
  }
  return count;
}

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  // If it fails the soft limit stays; how many connections fit in it is logged when the door
  // starts.
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

uint64_t FreeDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const uint64_t open = OpenDescriptors();
  return limit.rlim_cur > open ? limit.rlim_cur - open : 0;
}

bool SpareDescriptor::IsAnotherLeft() const {
  return static_cast<bool>(UniqueFd(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)));
}

bool SpareDescriptor::Take() {
  if (!fd_) fd_.Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return static_cast<bool>(fd_);
}

}  // namespace lodgekv::server
