// Spare space of one thread for leaf splits. A split uses a leaf and, if separators may be long, a
// record for its fence.
//
// Invariants
//  1. What an operation may need is allocated before its first durable step, so that what is in the
//     log can always be applied (README, invariant 9).
//  2. Each fence has room for the longest separator as of the last call of Ensure that has returned
//     true: no separator is longer than the longest key. After EnsureFor: for those of its keys.
//  3. The last fence is the shortest, and the next to be taken.
//
// SpareSource is thread-safe; SpareSpace belongs to one thread.
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

// The length of the longest key ever put whose record had room, durable before anyone relies on it.
class LongestKey {
 public:
  explicit LongestKey(pmem::Pool& pool) : pool_(pool) {}

  uint64_t bytes() const { return bytes_.load(std::memory_order_acquire); }
  // Rarely does anything, since the length only grows.
  void Note(uint64_t bytes) {
    if (bytes > this->bytes()) Raise(bytes);
  }
  // Recovery: sets what was found.
  void Restore(uint64_t bytes) { bytes_.store(bytes, std::memory_order_release); }

 private:
  void Raise(uint64_t bytes);

  pmem::Pool& pool_;
  std::mutex mutex_;
  std::atomic<uint64_t> bytes_{0};
};

// Where spare space is allocated and freed.
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

  // False: not enough space is free; what there was is still there.
  bool Ensure(const SpareSource& source, size_t count, pmem::ReservePolicy policy);
  // The same for splits of leaves without a key of more than `longest_key` bytes: other keys do not
  // count, however long. A fence takes the smallest space that is free.
  bool EnsureFor(const SpareSource& source, uint64_t longest_key, size_t count,
                 pmem::ReservePolicy policy);
  // Frees all but a few.
  void Trim(const SpareSource& source);
  void FreeAll(const SpareSource& source) { FreeAbove(source, 0, 0); }
  // Prefetches the leaves that the next calls of TakeLeaf will return.
  void Prefetch(const pmem::Pool& pool, size_t count = 1) const;

  size_t leaves() const { return leaves_.size(); }
  size_t fences() const { return fences_.size(); }
  // As of now: others may have put longer keys since Ensure.
  bool FencesAreLongEnough(const SpareSource& source) const;
  uint64_t fence_bytes(const pmem::RecordSlab& slab) const;
  pmem::Offset next_leaf() const { return leaves_.back(); }
  pmem::Offset TakeLeaf();
  Fence TakeFence();

 private:
  static constexpr size_t kKeptLeaves = 72;  // 36 KiB: enough for most groups
  static constexpr size_t kLeastFences = 8;
  static constexpr uint64_t kKeptFenceBytes = uint64_t{16} << 10;
  size_t KeptFences() const;
  static uint64_t BytesOfFence(const SpareSource& source);
  static Fence AllocateFence(const SpareSource& source, uint64_t bytes, pmem::ReservePolicy policy);
  bool EnsureLeaves(const SpareSource& source, size_t count, pmem::ReservePolicy policy);
  bool EnsureFences(const SpareSource& source, uint64_t bytes, size_t count,
                    pmem::ReservePolicy policy);
  void Insert(const Fence& fence);
  void FreeAbove(const SpareSource& source, size_t leaves, size_t fences);

  std::vector<pmem::Offset> leaves_;
  std::vector<Fence> fences_;  // for a full pool
};

}  // namespace lodgekv::lodgetree
