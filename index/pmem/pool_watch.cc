#include "index/pmem/pool_watch.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lodgekv::pmem {

// One file or device node.
class PoolWatch::WatchedFile {
 public:
  enum class Rule : uint8_t {
    kMapped,    // the pool's bytes: the same file, at least as long
    kSameFile,  // the journal: likewise, but what is cut off is not mapped
    kNotEmpty,  // a poolset: an editor may replace the file
    kDevice,    // a node: udev may create it anew
  };

  static absl::StatusOr<WatchedFile> Of(const std::string& path, Rule rule) {
    WatchedFile file(path, rule);
    // Also keeps the data of a deleted file, so that it can be copied back.
    const bool keep = rule == Rule::kMapped || rule == Rule::kSameFile;
    if (keep) file.fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool looked = keep ? file.fd_ >= 0 && fstat(file.fd_, &file.known_) == 0
                             : stat(path.c_str(), &file.known_) == 0;
    if (looked) return file;
    return ErrnoStatus(errno, absl::StrCat("cannot watch over ", path));
  }

  WatchedFile(WatchedFile&& other) noexcept
      : path_(std::move(other.path_)),
        rule_(other.rule_),
        fd_(std::exchange(other.fd_, -1)),
        known_(other.known_) {}
  ~WatchedFile() {
    if (fd_ >= 0) close(fd_);
  }

  std::optional<PoolLoss> Look() const {
    struct stat own;
    if (fd_ >= 0 && fstat(fd_, &own) == 0 && own.st_size < known_.st_size) {
      return PoolLoss{absl::StrCat(path_, " was cut short: it has ", own.st_size,
                                   " bytes, and had ", known_.st_size),
                      rule_ == Rule::kMapped};
    }
    struct stat named;
    if (stat(path_.c_str(), &named) != 0) {
      if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE) return std::nullopt;
      return PoolLoss{absl::StrCat(path_, " is gone: it was deleted or moved", WhereItIs())};
    }
    if (IsKnown(named)) return std::nullopt;
    return PoolLoss{absl::StrCat(path_, " is not the file that was opened", WhereItIs())};
  }

 private:
  WatchedFile(std::string path, Rule rule) : path_(std::move(path)), rule_(rule) {}

  bool IsKnown(const struct stat& named) const {
    switch (rule_) {
      case Rule::kMapped:
      case Rule::kSameFile: return named.st_dev == known_.st_dev && named.st_ino == known_.st_ino;
      case Rule::kNotEmpty: return named.st_size > 0;
      case Rule::kDevice: return S_ISCHR(named.st_mode) && named.st_rdev == known_.st_rdev;
    }
    return false;
  }

  std::string WhereItIs() const {
    if (fd_ < 0) return {};
    return absl::StrCat("; its bytes are still in /proc/", getpid(), "/fd/", fd_,
                        " until this process ends");
  }

  std::string path_;
  Rule rule_;
  int fd_ = -1;
  struct stat known_ {};
};

absl::StatusOr<std::unique_ptr<PoolWatch>> PoolWatch::Start(const PoolPath& pool,
                                                            const std::string& journal,
                                                            LossHandler on_loss) {
  using Rule = WatchedFile::Rule;
  std::vector<WatchedFile> files;
  absl::Status status;
  const auto add = [&](const std::string& path, Rule rule) {
    absl::StatusOr<WatchedFile> file = WatchedFile::Of(path, rule);
    status.Update(file.status());
    if (file.ok()) files.push_back(*std::move(file));
  };
  for (const PoolPath::Part& part : pool.parts) {
    add(part.path, part.kind == PoolPath::Kind::kDevdax ? Rule::kDevice : Rule::kMapped);
  }
  if (pool.kind == PoolPath::Kind::kPoolset) add(pool.path, Rule::kNotEmpty);
  if (!journal.empty()) add(journal, Rule::kSameFile);
  if (!status.ok()) return status;
  return std::unique_ptr<PoolWatch>(new PoolWatch(std::move(files), std::move(on_loss)));
}

PoolWatch::PoolWatch(std::vector<WatchedFile> files, LossHandler on_loss)
    : files_(std::move(files)), on_loss_(std::move(on_loss)), thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "lodgekv-watch");
}

PoolWatch::~PoolWatch() { Stop(); }

void PoolWatch::Run() {
  std::unique_lock lock(mu_);
  while (!stop_.wait_for(lock, kInterval, [this] { return stopping_; })) {
    lock.unlock();
    Look();
    lock.lock();
  }
}

void PoolWatch::Look() {
  for (const WatchedFile& file : files_) {
    if (loss_.has_value()) return;
    loss_ = file.Look();
    if (loss_.has_value() && on_loss_) on_loss_(*loss_);
  }
}

std::optional<PoolLoss> PoolWatch::Stop() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mu_);
      stopping_ = true;
    }
    stop_.notify_all();
    thread_.join();
    Look();
  }
  return loss_;
}

}  // namespace lodgekv::pmem
