// The applied index: the number of the newest group of writes, in the order of the replicating
// caller. A group's log entries carry it; it moves to the pool's header before its log is freed.
//
// Invariants
//  1. Either log() holds a fenced entry with value(), and counts it as valid; or log() is kNoLog,
//     and the pool's header holds value().
//  2. value() never decreases.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "index/node/append_log.h"
#include "index/pmem/pool.h"

namespace lodgekv::lodgetree {

class AppliedEntry {
 public:
  AppliedEntry(pmem::Pool& pool, AppendLog& log) : pool_(pool), logs_(log) {}

  uint64_t value() const { return value_.load(std::memory_order_acquire); }
  uint32_t log() const { return log_.load(std::memory_order_acquire); }

  // Call after the fence of the entry in `log`: the older entry is no longer needed.
  void Store(uint64_t value, uint32_t log);
  // Moves it to the pool's header if it pins `log`, so that the log can be freed.
  void LeaveLog(uint32_t log);
  // Recovery: sets what was found.
  void Restore(uint64_t value, uint32_t log);

 private:
  pmem::Pool& pool_;
  AppendLog& logs_;
  std::mutex mutex_;  // both change together
  std::atomic<uint64_t> value_{0};
  std::atomic<uint32_t> log_{AppendLog::kNoLog};
};

}  // namespace lodgekv::lodgetree
