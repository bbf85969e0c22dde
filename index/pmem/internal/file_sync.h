// Syncs the files behind an ordinary mapping.
//
// Group sync: one fdatasync serves every thread that called Sync before it began. A failure is
// final: the kernel may have dropped the dirty pages, so a later fdatasync that succeeds proves
// nothing.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "index/pmem/internal/dirty_page.h"
#include "index/pmem/internal/file_fence.h"
#include "index/pmem/internal/pool_writeback.h"

namespace lodgekv::pmem {

class FileSync : public FileFence, public PoolWriteback {
 public:
  struct File {
    std::string path;
    int fd = -1;
  };
  using FailureHandler = std::function<void(const std::string& what)>;

  // Owns the descriptors; `base` is where the files are mapped. `on_failure` is called once, by the
  // thread that noticed the failure.
  FileSync(std::vector<File> files, char* base, FailureHandler on_failure)
      : files_(std::move(files)), base_(base), on_failure_(std::move(on_failure)) {}
  ~FileSync() override;
  FileSync(const FileSync&) = delete;
  FileSync& operator=(const FileSync&) = delete;

  // Returns true when everything stored to the mapping before the call is on the medium. Always
  // false after the first failure.
  bool Sync();

  // FileFence: a sync covers every page that is dirty.
  void Note(const void* line) override { DirtyPage(line); }
  bool Fence() override { return Sync(); }
  bool Revoke(const void*, uint64_t) override { return true; }

  // PoolWriteback
  bool WriteBack(uint64_t begin, uint64_t bytes) override;
  bool WriteBackAll() override { return Sync(); }
  bool RewriteAll(uint64_t pool_bytes) override;
  void StoreAtFailure(uint64_t* word, uint64_t value) override { at_failure_ = {word, value}; }

  // The number of syncs; tests use it to see that threads share them.
  uint64_t rounds() const;

 private:
  // Returns an empty string when all files are synced, otherwise the error.
  std::string SyncAll() const;
  void Fail(const std::string& what);

  const std::vector<File> files_;
  char* const base_;
  const FailureHandler on_failure_;
  mutable std::mutex mu_;
  std::condition_variable round_done_;
  uint64_t rounds_begun_ = 0;
  uint64_t rounds_done_ = 0;
  struct AtFailure {
    uint64_t* word = nullptr;
    uint64_t value = 0;
  };
  AtFailure at_failure_;
  bool told_ = false;  // the failure was reported
  bool failed_ = false;
};

}  // namespace lodgekv::pmem
