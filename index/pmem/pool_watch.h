// Checks periodically whether the files of a pool in use are still what the next start would find:
// the same file at its path, and no shorter than before. Writes to a file that was deleted,
// replaced or truncated are lost, and nothing else would notice: the mapping of a deleted file
// still works.
//
// Uses stat, not inotify: that reports only this machine's calls, not those of an NFS server, nor
// mounts that cover the path or disappear.
//
// INVARIANT  A loss is final, and reported once. A failed check (no permission, an I/O error) is
// not a loss.
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
  std::string what;  // which file, what happened to it, and where its data still is
  // A file of the pool was truncated: any access may hit a missing page.
  bool cut_short = false;
};

class PoolWatch {
 public:
  using LossHandler = std::function<void(const PoolLoss&)>;
  static constexpr std::chrono::milliseconds kInterval{200};

  // Records the current files of `pool` and the journal (empty: none) as the expected ones.
  // NotFound if one is missing. `on_loss` is called once, by the watch's own thread or by Stop.
  static absl::StatusOr<std::unique_ptr<PoolWatch>> Start(const PoolPath& pool,
                                                          const std::string& journal,
                                                          LossHandler on_loss);
  ~PoolWatch();
  PoolWatch(const PoolWatch&) = delete;
  PoolWatch& operator=(const PoolWatch&) = delete;

  // Checks once more and ends the thread; returns the loss, if there was one.
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
  std::optional<PoolLoss> loss_;  // set by the thread; once that has ended, by Stop
  std::thread thread_;
};

}  // namespace lodgekv::pmem
