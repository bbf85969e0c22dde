#include "index/pmem/file_sync.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace lodgekv::pmem {

FileSync::~FileSync() {
  for (const File& file : files_) close(file.fd);
}

bool FileSync::Sync() {
  std::unique_lock lock(mu_);
  // A round that is under way may have begun before this thread's last store.
  const uint64_t needed = rounds_begun_ + 1;
  while (!failed_ && rounds_done_ < needed) {
    if (rounds_begun_ != rounds_done_) {
      round_done_.wait(lock);
      continue;
    }
    const uint64_t round = ++rounds_begun_;
    lock.unlock();
    const std::string error = SyncAll();
    lock.lock();
    rounds_done_ = round;
    failed_ = !error.empty();
    round_done_.notify_all();
    if (failed_) {
      lock.unlock();
      if (on_failure_) on_failure_(error);
      return false;
    }
  }
  return !failed_;
}

uint64_t FileSync::rounds() const {
  std::lock_guard lock(mu_);
  return rounds_done_;
}

std::string FileSync::SyncAll() const {
  for (const File& file : files_) {
    while (fdatasync(file.fd) != 0) {
      if (errno == EINTR) continue;
      return "fdatasync of " + file.path + " failed: " + std::generic_category().message(errno) +
             "; nothing written since the last sync is known to be on the medium";
    }
  }
  return {};
}

}  // namespace lodgekv::pmem
