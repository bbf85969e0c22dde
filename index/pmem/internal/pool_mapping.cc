#include "index/pmem/internal/pool_mapping.h"

#include <fcntl.h>
#include <libpmem.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

// MADV_COLLAPSE, which the C library does not define yet.
#include <asm/mman.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "index/pmem/durable_rename.h"
#include "index/pmem/internal/bad_page.h"
#include "index/pmem/internal/metadata_guard.h"
#include "index/pmem/medium.h"

namespace lodgekv::pmem {
namespace {

constexpr char kLayout[] = "lodgekv";
constexpr mode_t kFileMode = 0600;
constexpr size_t kHeaderPage = 4096;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
// libpmemobj leaves these bytes of its header page zero, and its checksum does not cover them.
constexpr size_t kUnusedBegin = 2048;
constexpr size_t kUnusedEnd = 4024;

// Whether a file may be an unfinished one of pmemobj_create: it writes the header page last.
bool LooksUnfinished(int fd) {
  constexpr std::string_view kSignature("PMEMOBJ\0", 8);
  char begin[kSignature.size()] = {};
  if (pread(fd, begin, sizeof begin, 0) < 0) return false;
  const bool zero = std::all_of(std::begin(begin), std::end(begin), [](char c) { return c == 0; });
  return zero || std::string_view(begin, sizeof begin) == kSignature;
}

// Held while NAME.creating comes into being: until then libpmemobj has not locked the file, and to
// another creator it looks like what a dead one has left. Where folders cannot be locked (NFS),
// there is no such lock.
class CreationLock {
 public:
  explicit CreationLock(const std::string& path)
      : fd_(open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (fd_ >= 0 && flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~CreationLock() {
    if (fd_ >= 0) close(fd_);
  }
  CreationLock(const CreationLock&) = delete;
  CreationLock& operator=(const CreationLock&) = delete;

 private:
  static std::string FolderOf(const std::string& path) {
    const std::string folder = std::filesystem::path(path).parent_path();
    return folder.empty() ? "." : folder;
  }

  const int fd_;
};

// Removes what a process left that died while creating. FailedPrecondition if it is alive, or if
// the file is something else.
absl::Status RemoveLeftover(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return errno == ENOENT ? absl::OkStatus()
                           : ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  }
  const absl::Cleanup closer = [fd] { close(fd); };
  struct stat opened;
  struct stat named;
  // libpmemobj holds this lock while the file is open.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &opened) != 0 ||
      stat(path.c_str(), &named) != 0 || opened.st_ino != named.st_ino) {
    return absl::FailedPreconditionError(
        absl::StrCat("another process is creating the pool right now (", path, " is locked)"));
  }
  if (!LooksUnfinished(fd)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     " is in the way: a new pool has this name until it is complete, and "
                     "the file there is not left from one; move it"));
  }
  if (unlink(path.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot remove ", path));
}

absl::Status ClearDevice(const std::string& path) {
  size_t mapped = 0;
  void* base = pmem_map_file(path.c_str(), 0, 0, 0, &mapped, nullptr);
  if (base == nullptr) return ErrnoStatus(errno, absl::StrCat("cannot map device ", path));
  pmem_memset_persist(base, 0, kHeaderPage);
  pmem_unmap(base, mapped);
  return absl::OkStatus();
}

absl::Status OpenError(const std::string& path, int error) {
  const std::string detail = pmemobj_errormsg();
  if (error == EAGAIN || error == EWOULDBLOCK) {
    return absl::FailedPreconditionError(absl::StrCat(
        "pool ", path, " is open in another process; a pool belongs to one at a time"));
  }
  if (error == EACCES || error == EPERM || error == EROFS || error == ENOENT) {
    return ErrnoStatus(error, absl::StrCat("cannot open pool ", path));
  }
  return absl::DataLossError(absl::StrCat("pool ", path,
                                          " is damaged, truncated or not a LodgeKV pool "
                                          "(a libpmemobj pool with layout \"",
                                          kLayout, "\"): ", detail));
}

absl::Status CreateError(const std::string& path, int error, uint64_t bytes) {
  const std::string what = absl::StrCat("cannot create pool ", path,
                                        bytes == 0 ? "" : absl::StrCat(" of ", bytes, " bytes"));
  const std::string detail = pmemobj_errormsg();
  absl::Status status = ErrnoStatus(error, what);
  return absl::Status(status.code(), absl::StrCat(status.message(), " (", detail, ")"));
}

// The new pool of `bytes` at `target`, a name it has until it is complete; of 0 bytes: a device at
// `path`, or the files of a poolset.
absl::StatusOr<PMEMobjpool*> CreatePool(const std::string& path, const std::string& target,
                                        uint64_t bytes) {
  std::optional<CreationLock> lock;
  if (bytes != 0) {
    lock.emplace(target);
    if (absl::Status status = RemoveLeftover(target); !status.ok()) return status;
  }
  PMEMobjpool* pop = pmemobj_create(target.c_str(), kLayout, bytes, kFileMode);
  if (pop == nullptr) return CreateError(path, errno, bytes);
  return pop;
}

// Memory that was allocated for a file and never read or written holds nothing yet, and Linux
// empties it when somebody first does either. Not so if it is a huge page, as a mount with
// `huge=always` allocates, and MADV_COLLAPSE maps it first: then it is emptied by who looks it up
// next, and all that was written through the mapping is lost (Linux 6.18).
void TouchHugePages(const void* base, uint64_t bytes) {
  const auto* begin = static_cast<const volatile char*>(base);
  for (uint64_t at = 0; at < bytes; at += kHugePage) (void)begin[at];
}

// Persistent memory is mapped with huge pages; a memory file system that emulates it gives small
// ones unless asked, and libpmemobj has allocated them by now. Best effort: nothing depends on it.
void UseHugePages(PMEMobjpool* pop, const PoolPath& path) {
  struct statfs system;
  if (path.kind != PoolPath::Kind::kFile || statfs(path.parts[0].path.c_str(), &system) != 0 ||
      system.f_type != TMPFS_MAGIC) {
    return;
  }
  const uint64_t bytes = path.bytes() / kHugePage * kHugePage;
  TouchHugePages(pop, bytes);
  if (madvise(pop, bytes, MADV_HUGEPAGE) == 0) (void)madvise(pop, bytes, MADV_COLLAPSE);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PoolMapping>> PoolMapping::Create(const PoolPath& path,
                                                                 uint64_t bytes) {
  auto mapping = std::unique_ptr<PoolMapping>(new PoolMapping(path));
  const bool file = bytes != 0;
  const std::string target = file ? absl::StrCat(path.path, ".creating") : path.path;
  const absl::StatusOr<PMEMobjpool*> created = CreatePool(path.path, target, bytes);
  if (!created.ok()) return created.status();
  mapping->pop_ = *created;
  // From here on the destructor undoes the creation.
  mapping->published_ = false;
  mapping->replaces_empty_file_ = path.kind == PoolPath::Kind::kFile;
  absl::StatusOr<PoolPath> made = PoolPath::Inspect(target);
  if (!made.ok()) return made.status();
  mapping->path_ = *std::move(made);
  mapping->path_.path = path.path;
  UseHugePages(mapping->pop_, mapping->path_);
  mapping->watched_.emplace(mapping->base(), mapping->path_.bytes(), path.path);
  return mapping;
}

absl::StatusOr<std::unique_ptr<PoolMapping>> PoolMapping::Open(const PoolPath& path) {
  auto mapping = std::unique_ptr<PoolMapping>(new PoolMapping(path));
  {
    const OpeningPool opening(path.path.c_str());
    const InsideLibpmemobj inside(path.path.c_str());
    mapping->pop_ = pmemobj_open(path.path.c_str(), kLayout);
  }
  if (mapping->pop_ == nullptr) return OpenError(path.path, errno);
  UseHugePages(mapping->pop_, path);
  mapping->watched_.emplace(mapping->base(), path.bytes(), path.path);
  const char* page = mapping->base();
  if (std::any_of(page + kUnusedBegin, page + kUnusedEnd, [](char c) { return c != 0; })) {
    return absl::DataLossError(absl::StrCat("pool ", path.path, " is damaged: bytes ", kUnusedBegin,
                                            " to ", kUnusedEnd - 1,
                                            " of its first page are not all zero"));
  }
  return mapping;
}

PoolMapping::~PoolMapping() {
  if (pop_ == nullptr) return;
  if (published_) {
    const InsideLibpmemobj inside(path_.path.c_str());
    pmemobj_close(pop_);
  } else {
    CloseAndRemove().IgnoreError();
  }
}

absl::Status PoolMapping::TakeRoot(uint64_t bytes_when_new) {
  const InsideLibpmemobj inside(path_.path.c_str());
  const uint64_t bytes = bytes_when_new != 0 ? bytes_when_new : pmemobj_root_size(pop_);
  if (bytes <= kBlockBytes) {
    return absl::DataLossError(
        "it has no header: its creation was interrupted; remove it and create it again");
  }
  const PMEMoid root = pmemobj_root(pop_, bytes);
  if (OID_IS_NULL(root)) return ErrnoStatus(errno, "cannot allocate the root object");
  if (root.off > path_.bytes() || bytes > path_.bytes() - root.off) {
    return absl::DataLossError(absl::StrCat("its root object is damaged: ", bytes,
                                            " bytes at offset ", root.off,
                                            " are not all in the pool"));
  }
  auto* begin = static_cast<char*>(pmemobj_direct(root));
  const uint64_t skipped =
      (kBlockBytes - reinterpret_cast<uintptr_t>(begin) % kBlockBytes) % kBlockBytes;
  header_ = begin + skipped;
  header_bytes_ = bytes - skipped;
  return absl::OkStatus();
}

absl::Status PoolMapping::Publish() {
  if (path_.kind == PoolPath::Kind::kFile) {
    const absl::Status status = RenameDurably(file(), path_.path, replaces_empty_file_);
    if (!status.ok()) return status;
    path_.parts[0].path = path_.path;
  }
  published_ = true;
  return absl::OkStatus();
}

absl::Status PoolMapping::CloseAndRemove() {
  {
    const InsideLibpmemobj inside(path_.path.c_str());
    pmemobj_close(std::exchange(pop_, nullptr));
  }
  watched_.reset();
  for (const PoolPath::Part& part : path_.parts) {
    if (part.kind == PoolPath::Kind::kDevdax) {
      if (absl::Status status = ClearDevice(part.path); !status.ok()) return status;
    } else if (unlink(part.path.c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, absl::StrCat("cannot remove ", part.path));
    }
  }
  return absl::OkStatus();
}

}  // namespace lodgekv::pmem
