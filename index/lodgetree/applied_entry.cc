#include "index/lodgetree/applied_entry.h"

namespace lodgekv::lodgetree {

void AppliedEntry::Store(uint64_t value, uint32_t log) {
  const std::lock_guard lock(mutex_);
  if (value < value_.load(std::memory_order_relaxed)) return logs_.Release(log);
  value_.store(value, std::memory_order_release);
  const uint32_t old = log_.exchange(log, std::memory_order_acq_rel);
  if (old != AppendLog::kNoLog) logs_.Release(old);
}

void AppliedEntry::LeaveLog(uint32_t log) {
  const std::lock_guard lock(mutex_);
  if (log_.load(std::memory_order_relaxed) != log) return;
  pool_.PersistAppliedIndex(value_.load(std::memory_order_relaxed));
  log_.store(AppendLog::kNoLog, std::memory_order_release);
  logs_.Release(log);
}

void AppliedEntry::Restore(uint64_t value, uint32_t log) {
  const std::lock_guard lock(mutex_);
  value_.store(value, std::memory_order_release);
  log_.store(log, std::memory_order_release);
}

}  // namespace lodgekv::lodgetree
