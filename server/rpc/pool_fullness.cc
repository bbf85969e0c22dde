#include "server/rpc/pool_fullness.h"

#include <algorithm>

#include "server/base/log.h"

namespace lodgekv::server {

void PoolFullness::NoteRefused() {
  refused_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  freed_.store(false, std::memory_order_relaxed);
  Set(true);
}

void PoolFullness::NoteApplied(std::span<const WriteOp> ops, std::span<const WriteResult> results) {
  const auto is_put = [](const WriteOp& op) { return op.kind == WriteKind::kPut; };
  if (std::any_of(ops.begin(), ops.end(), is_put)) return Set(false);
  const auto found = [](const WriteResult& result) { return result.found; };
  if (!std::any_of(results.begin(), results.end(), found)) return;
  freed_.store(true, std::memory_order_relaxed);
  if (QuietFor(quiet_)) Set(false);
}

bool PoolFullness::QuietFor(Clock::duration time) const {
  const Clock::duration refused(refused_.load(std::memory_order_relaxed));
  return Clock::now() - Clock::time_point(refused) >= time;
}

void PoolFullness::Set(bool full) {
  full_.store(full, std::memory_order_relaxed);
  if (logged_full_.load(std::memory_order_relaxed) == full) return;
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (logged_full_.load(std::memory_order_relaxed) == full || now < next_line_) return;
    logged_full_.store(full, std::memory_order_relaxed);
    next_line_ = now + pace_;
  }
  if (full) {
    Log(LogLevel::kWarning, "the pool is full: puts are refused, reads and deletes are served");
  } else {
    Log(LogLevel::kInfo, "the pool has room again");
  }
}

}  // namespace lodgekv::server
