// Version locks for leaves without locks of their own: a table indexed by the leaf's address in the
// pool. So a leaf on the medium costs no DRAM of its own.
//
// Leaves may share a lock. A thread that holds one leaf's lock and needs a second leaf's first
// checks whether it is the same, and then only tries: so there is no deadlock, and LockAll may wait
// for each in turn.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "index/node/version_lock.h"
#include "index/pmem/medium.h"

namespace lodgekv {

class StripedLocks {
 public:
  // One for 64 blocks of 256 bytes, but not more than fit into a processor's second-level cache.
  StripedLocks(const char* pool_base, uint64_t pool_bytes)
      : base_(pool_base),
        shift_(64 - static_cast<unsigned>(std::bit_width(
                        std::clamp<uint64_t>(pool_bytes / (64 * pmem::kBlockBytes), kLeast, kMost) -
                        1))),
        locks_(std::make_unique<VersionLock[]>(count())) {}

  // The index of the leaf's lock.
  size_t IndexOf(const void* leaf) const {
    const auto block =
        static_cast<uint64_t>(static_cast<const char*>(leaf) - base_) / pmem::kBlockBytes;
    return (block * 0x9E3779B97F4A7C15ull) >> shift_;
  }
  VersionLock& Of(const void* leaf) const { return locks_[IndexOf(leaf)]; }
  size_t IndexOfLock(const VersionLock& lock) const {
    return static_cast<size_t>(&lock - locks_.get());
  }

  // Waits for every lock: afterwards no writer is active.
  void LockAll() const {
    for (size_t i = 0; i < count(); ++i) {
      for (Backoff backoff; !locks_[i].TryUpgrade(locks_[i].ReadBegin()); backoff.Pause()) {
      }
    }
  }
  void UnlockAll() const {
    for (size_t i = 0; i < count(); ++i) locks_[i].Unlock();
  }

  size_t count() const { return size_t{1} << (64 - shift_); }
  size_t bytes() const { return count() * sizeof(VersionLock); }

 private:
  static constexpr uint64_t kLeast = 16;
  static constexpr uint64_t kMost = 8192;
  const char* const base_;
  const unsigned shift_;  // of a hash to an index
  const std::unique_ptr<VersionLock[]> locks_;
};

}  // namespace lodgekv
