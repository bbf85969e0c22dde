#include "index/pmem/internal/file_sync.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "index/pmem/internal/page_set.h"

namespace lodgekv::pmem {
namespace {

std::string Describe(const std::string& call, int error) {
  return absl::StrCat(call, " failed: ", std::generic_category().message(error),
                      "; what has not been synced before may not be on the medium");
}

}  // namespace

FileSync::~FileSync() {
  for (const File& file : files_) close(file.fd);
}

bool FileSync::Sync() {
  std::unique_lock lock(mu_);
  // A round in progress may have begun before this thread's last store.
  const uint64_t needed = rounds_begun_ + 1;
  while (!failed_ && rounds_done_ < needed) {
    if (rounds_begun_ != rounds_done_) {
      round_done_.wait(lock);
      continue;
    }
    const uint64_t round = ++rounds_begun_;
    lock.unlock();
    const std::string error = SyncAll();
    // Before any thread sees that the round is done: the next one skips what this one failed to
    // write.
    if (!error.empty()) Fail(error);
    lock.lock();
    rounds_done_ = round;
    round_done_.notify_all();
  }
  return !failed_;
}

bool FileSync::WriteBack(uint64_t begin, uint64_t bytes) {
  while (msync(base_ + begin, bytes, MS_SYNC) != 0) {
    if (errno == EINTR) continue;
    Fail(Describe(absl::StrCat("msync of ", bytes, " bytes at ", begin, " of ", files_[0].path),
                  errno));
    return false;
  }
  const std::lock_guard lock(mu_);
  return !failed_;
}

// A page that is not in memory is as it is in the file.
bool FileSync::RewriteAll(uint64_t pool_bytes) {
  constexpr uint64_t kPage = PageSet::kPageBytes;
  constexpr uint64_t kPiece = 16384 * kPage;
  std::vector<unsigned char> resident(kPiece / kPage);
  for (uint64_t begin = 0; begin < pool_bytes; begin += kPiece) {
    const uint64_t bytes = std::min(kPiece, pool_bytes - begin);
    if (mincore(base_ + begin, bytes, resident.data()) != 0) {
      Fail(Describe(absl::StrCat("mincore of ", bytes, " bytes at ", begin), errno));
      return false;
    }
    for (uint64_t at = 0; at < bytes; at += kPage) {
      if ((resident[at / kPage] & 1) != 0) DirtyPage(base_ + begin + at);
    }
  }
  return Sync();
}

uint64_t FileSync::rounds() const {
  std::lock_guard lock(mu_);
  return rounds_done_;
}

std::string FileSync::SyncAll() const {
  for (const File& file : files_) {
    while (fdatasync(file.fd) != 0) {
      if (errno == EINTR) continue;
      return Describe("fdatasync of " + file.path, errno);
    }
  }
  return {};
}

// Calls the handler first: it ends the process, and no thread whose sync has failed may continue.
void FileSync::Fail(const std::string& what) {
  std::unique_lock lock(mu_);
  if (told_) {
    round_done_.wait(lock, [this] { return failed_; });
    return;
  }
  told_ = true;
  lock.unlock();
  if (at_failure_.word != nullptr) {
    std::atomic_ref(*at_failure_.word).store(at_failure_.value, std::memory_order_release);
  }
  if (on_failure_) on_failure_(what);
  lock.lock();
  failed_ = true;
  round_done_.notify_all();
}

}  // namespace lodgekv::pmem
