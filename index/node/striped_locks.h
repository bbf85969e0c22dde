// Version locks for leaves that have none of their own: a table of them, by the leaf's address in
// the pool. A leaf on the medium so costs no DRAM of its own.
//
// Leaves may share a lock. Whoever holds one leaf's lock and wants a second leaf's looks first
// whether it is the same (SameLock), and then only tries: so waiting never forms a circle, and
// LockAll may wait for each in turn.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "index/node/version_lock.h"
#include "index/pmem/persist.h"

namespace lodgekv {

class StripedLocks {
 public:
  static constexpr unsigned kLogCount = 13;  // 64 KiB: in every processor's second-level cache
  static constexpr unsigned kCount = 1u << kLogCount;

  explicit StripedLocks(const char* pool_base)
      : base_(pool_base), locks_(std::make_unique<Table>()) {}

  VersionLock& Of(const void* leaf) const {
    const auto block =
        static_cast<uint64_t>(static_cast<const char*>(leaf) - base_) / pmem::kBlockBytes;
    return (*locks_)[(block * 0x9E3779B97F4A7C15ull) >> (64 - kLogCount)];
  }

  // Waits for every lock: no writer is at work then.
  void LockAll() const {
    for (VersionLock& lock : *locks_) {
      for (Backoff backoff; !lock.TryUpgrade(lock.ReadBegin()); backoff.Pause()) {
      }
    }
  }
  void UnlockAll() const {
    for (VersionLock& lock : *locks_) lock.Unlock();
  }

 private:
  using Table = std::array<VersionLock, kCount>;
  const char* base_;
  std::unique_ptr<Table> locks_;
};

}  // namespace lodgekv
