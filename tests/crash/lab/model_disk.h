// A disk under a pool on an ordinary file and its journal: what is certainly on it, and what may be
// on it if the power goes off now.
//
// The pool's file is mapped, and the kernel writes pages back at any time. So each word may have
// any content that it had since its page was last synced, independently of the words beside it.
// After a failed sync the kernel considers the pages clean: later syncs succeed without writing
// them, until something is stored to the page.
// During a write to the journal each sector of 512 bytes is the old or the new one; one sector of a
// group or a checkpoint may also be noise, as on a disk that tears sectors.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "index/pmem/internal/file_fence.h"
#include "index/pmem/internal/journal_storage.h"
#include "index/pmem/internal/pool_journal.h"
#include "index/pmem/internal/pool_writeback.h"
#include "index/pmem/internal/tracer.h"
#include "tests/crash/lab/tracer.h"
#include "tests/support/arena_memory.h"
#include "tests/support/random.h"

namespace lodgekv::test {

// When the power is cut.
enum class Moment : uint8_t {
  kFence,       // before a fence is requested
  kHeader,      // while the journal's header is written
  kCheckpoint,  // while a checkpoint's block is written
  kGroup,       // while a group is written
  kWriteBack,   // before the write-back of pages is confirmed
  kSync,        // before the sync of the pool is confirmed
  kPoint,       // at a crash point
};
inline constexpr size_t kMoments = 7;

// What a power cut leaves.
struct DiskImage {
  explicit DiskImage(uint64_t pool_bytes) : pool(pool_bytes) {}
  ArenaMemory pool;
  std::vector<std::byte> journal;  // empty: no file
};

class ModelDisk final : public pmem::Tracer, public pmem::FileFence, public pmem::PoolWriteback {
 public:
  // `memory` is the mapped pool, which is on the disk as it is; so is `journal`.
  ModelDisk(std::span<std::byte> memory, std::vector<std::byte> journal, Fault fault = {});

  // Called at every moment, with the disk locked.
  std::function<void(Moment)> on_moment;
  // The number (from 1) of the call of Write, WriteBack or WriteBackAll that fails; 0: none.
  uint64_t fails_at = 0;
  uint64_t calls() const { return calls_; }

  // Locks the disk.
  std::unique_lock<std::recursive_mutex> Hold() const { return std::unique_lock(mu_); }
  // The kernel has failed to write the dirty pages back, and told a process that is gone.
  void GiveUpPages();
  // A sync of the pool fails, and the process sees it.
  void FailSync();
  void Draw(Random& random, DiskImage* image) const;

  // Stores a word of the pool without a Medium.
  void Store(uint64_t offset, uint64_t value);
  // The same, made durable by libpmemobj.
  void StoreDurably(uint64_t offset, uint64_t value);

  std::shared_ptr<pmem::JournalPlace> place();
  std::shared_ptr<pmem::JournalStorage> storage();
  const std::set<std::string, std::less<>>& crash_points() const { return crash_points_; }
  bool fault_happened() const { return fault_happened_; }

  // Tracer
  void OnStore(const void* dst, size_t bytes, bool stream) override;
  void OnFlush(const void*) override {}
  void OnFence() override { Reach(Moment::kFence); }
  void OnCrashPoint(std::string_view name) override;
  bool OnCanary(std::string_view name) override;

  // FileFence: for a pool without its journal
  void Note(const void* line) override { OnStore(line, sizeof(uint64_t), false); }
  bool Fence() override { return WriteBackAll(); }
  bool Revoke(const void*, uint64_t) override { return true; }

  // PoolWriteback
  bool WriteBack(uint64_t begin, uint64_t bytes) override;
  bool WriteBackAll() override;
  bool RewriteAll(uint64_t pool_bytes) override;
  void StoreAtFailure(uint64_t* word, uint64_t value) override { at_failure_ = {word, value}; }

 private:
  class Storage;
  class Place;
  struct JournalWrite {
    uint64_t offset = 0;
    std::vector<std::byte> bytes;
  };

  void Reach(Moment moment);
  bool FailsNow() { return ++calls_ == fails_at; }
  absl::Status WriteJournal(uint64_t offset, std::span<const std::byte> from);
  void Keep(const JournalWrite& write);
  void DrawWrite(const JournalWrite& write, Random& random, std::byte* journal) const;
  void DrawPool(Random& random, std::byte* pool) const;

  const std::span<std::byte> memory_;
  const Fault fault_;
  mutable std::recursive_mutex mu_;
  std::vector<std::byte> durable_;  // the pool's file
  // For each word the values stored since it was synced; only words that have any.
  absl::flat_hash_map<uint32_t, std::vector<uint64_t>> stored_;
  std::vector<uint32_t> dirty_;
  absl::flat_hash_set<uint64_t> given_up_;  // pages that no sync writes before the next store
  std::pair<uint64_t*, uint64_t> at_failure_;
  std::vector<std::byte> journal_;
  std::list<JournalWrite> under_way_;
  std::set<std::string, std::less<>> crash_points_;
  uint64_t calls_ = 0;
  bool drops_fence_ = false;
  std::optional<JournalWrite> dropped_;  // acknowledged, and lost before the next write
  bool fault_happened_ = false;
};

}  // namespace lodgekv::test
