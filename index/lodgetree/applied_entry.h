// The applied index: the number, in the order of whoever replicates, of the newest group of writes.
// A group's log entries carry it; the pool's header has it once its log is to go.
//
// Invariants
//  1. log() holds a fenced entry that says value(), and counts it as valid; or log() is kNoLog, and
//     the pool's header says value().
//  2. value() never falls.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "index/lodgetree/partitioned_version_log.h"
#include "index/pmem/pool.h"

namespace lodgekv::lodgetree {

class AppliedEntry {
 public:
  AppliedEntry(pmem::Pool& pool, PartitionedVersionLog& log) : pool_(pool), logs_(log) {}

  uint64_t value() const { return value_.load(std::memory_order_acquire); }
  uint32_t log() const { return log_.load(std::memory_order_acquire); }

  // After the fence of the entry that `log` holds: the older entry is no longer needed.
  void Store(uint64_t value, uint32_t log);
  // Moves it to the pool's header, if it pins `log`, so that the log can go.
  void LeaveLog(uint32_t log);
  // Recovery: what was found.
  void Restore(uint64_t value, uint32_t log);

 private:
  pmem::Pool& pool_;
  PartitionedVersionLog& logs_;
  std::mutex mutex_;  // the two change together
  std::atomic<uint64_t> value_{0};
  std::atomic<uint32_t> log_{PartitionedVersionLog::kNoLog};
};

}  // namespace lodgekv::lodgetree
