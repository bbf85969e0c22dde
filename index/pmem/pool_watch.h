// Looks now and then whether the files of a pool in service are still what the next start would
// find: the same file under its path, and as long as it was. What is acknowledged to a file that
// was deleted, replaced or cut short is lost, and nothing else would say so: the mapping of a
// deleted file works on.
//
// By stat, not by inotify: that tells of this machine's calls alone and not of an NFS server's, nor
// of a mount that covers the path or goes.
//
// INVARIANT  A loss is final, and told once. What cannot be looked at (no permission, an I/O error)
//            is no loss.
//
// Thread-safe.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "index/pmem/pool_path.h"

namespace lodgekv::pmem {

struct PoolLoss {
  std::string what;  // which file, what became of it, and where its bytes still are
  // A file of the pool has lost its end: whatever touches it may meet a page that is not there.
  bool cut_short = false;
};

class PoolWatch {
 public:
  using LossHandler = std::function<void(const PoolLoss&)>;
  static constexpr std::chrono::milliseconds kInterval{200};

  // Takes what the files of `pool` and the journal (empty: none) are now as what they must stay.
  // NotFound when one is missing. `on_loss` is called once, by the watch's own thread or by Stop.
  static absl::StatusOr<std::unique_ptr<PoolWatch>> Start(const PoolPath& pool,
                                                          const std::string& journal,
                                                          LossHandler on_loss);
  ~PoolWatch();
  PoolWatch(const PoolWatch&) = delete;
  PoolWatch& operator=(const PoolWatch&) = delete;

  // Looks a last time and ends the thread: the loss, if there was one.
  std::optional<PoolLoss> Stop();

 private:
  class WatchedFile;

  PoolWatch(std::vector<WatchedFile> files, LossHandler on_loss);
  void Run();
  void Look();

  const std::vector<WatchedFile> files_;
  const LossHandler on_loss_;
  std::mutex mu_;
  std::condition_variable stop_;
  bool stopping_ = false;         // guarded by mu_
  std::optional<PoolLoss> loss_;  // by the thread, and once that has ended by Stop
  std::thread thread_;
};

}  // namespace lodgekv::pmem
