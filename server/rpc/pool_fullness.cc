#include "server/rpc/pool_fullness.h"

#include "server/base/log.h"

namespace lodgekv::server {

void PoolFullness::Set(bool full) {
  full_.store(full, std::memory_order_relaxed);
  if (logged_full_.load(std::memory_order_relaxed) == full) return;
  {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
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
