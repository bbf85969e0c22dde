// What one thread has at hand for leaf splits. A split takes a leaf and, where separators may be
// long, a record for its fence.
//
// Invariants
//  1. What an operation may need is here before its first durable step, so that what is in the log
//     can always be applied (README, invariant 9).
//  2. Each fence has room for the longest separator that there was when Ensure was last called:
//     no separator is longer than the longest key.
//
// SpareSource is thread-safe; SpareSpace is one thread's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "index/pmem/pool.h"
#include "index/pmem/record_slab.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv::lodgetree {

// The longest key ever put, durable before anyone counts on it.
class LongestKey {
 public:
  explicit LongestKey(pmem::Pool& pool) : pool_(pool) {}

  uint64_t bytes() const { return bytes_.load(std::memory_order_acquire); }
  // Seldom does anything, since it only grows.
  void Note(uint64_t bytes) {
    if (bytes > this->bytes()) Raise(bytes);
  }
  // Recovery: what was found.
  void Restore(uint64_t bytes) { bytes_.store(bytes, std::memory_order_release); }

 private:
  void Raise(uint64_t bytes);

  pmem::Pool& pool_;
  std::mutex mutex_;
  std::atomic<uint64_t> bytes_{0};
};

// Where spare space comes from and goes back to.
struct SpareSource {
  pmem::Pool& pool;
  pmem::UnitArena& leaves;
  pmem::RecordSlab& slab;
  const LongestKey& longest_key;
  const bool fences;  // long separators have records
};

class SpareSpace {
 public:
  struct Fence {
    pmem::Offset space;
    uint64_t bytes;
  };

  // False: there are not so many to be had.
  bool Ensure(const SpareSource& source, size_t count, pmem::ReservePolicy policy);
  // Gives back what is more than a few.
  void Trim(const SpareSource& source);
  // The leaf that TakeLeaf will give.
  void Prefetch(const pmem::Pool& pool) const;

  size_t leaves() const { return leaves_.size(); }
  size_t fences() const { return fences_.size(); }
  uint64_t fence_bytes(const pmem::RecordSlab& slab) const;
  pmem::Offset next_leaf() const { return leaves_.back(); }
  pmem::Offset TakeLeaf();
  Fence TakeFence();

 private:
  bool EnsureFences(const SpareSource& source, size_t count, pmem::ReservePolicy policy);

  std::vector<pmem::Offset> leaves_;
  std::vector<Fence> fences_;  // for a full pool
};

}  // namespace lodgekv::lodgetree
