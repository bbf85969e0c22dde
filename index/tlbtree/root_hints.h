// Where the roots of sub-indices were when a descent came by, by anchor. A descent fetches the root
// together with the anchor, where it would wait for one after the other (README, Root hints). Only
// hints: the anchor says which root it is, and a wrong hint costs the fetch of four lines.
//
// In DRAM, empty after a start. Places are in the order of anchors' offsets, so that the hints of
// anchors that lie together do as well, and few lines of the table are in use. Anchors that are a
// multiple of its span apart overwrite each other's hints.
//
// Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "index/pmem/medium.h"

namespace lodgekv::tlbtree {

class RootHints {
 public:
  // Of a pool so large.
  explicit RootHints(uint64_t pool_bytes)
      : mask_(std::bit_ceil(std::clamp(pool_bytes / kPoolBytes, kLeast, kMost)) - 1),
        blocks_(static_cast<uint32_t*>(std::calloc(mask_ + 1, sizeof(uint32_t)))) {
    if (blocks_ == nullptr) throw std::bad_alloc();
  }
  // Without any.
  RootHints() = default;

  bool in_use() const { return blocks_ != nullptr; }
  // The root of the anchor's sub-index, or of another one; 0: none is known.
  pmem::Offset At(pmem::Offset anchor) const {
    if (!in_use()) return 0;
    return pmem::Offset{PlaceOf(anchor).load(std::memory_order_relaxed)} * pmem::kBlockBytes;
  }
  // A root beyond the first TiB has no hint.
  void Note(pmem::Offset anchor, pmem::Offset root) const {
    if (!in_use()) return;
    const uint64_t block = root / pmem::kBlockBytes;
    const uint32_t hint = block <= UINT32_MAX ? static_cast<uint32_t>(block) : 0;
    const std::atomic_ref<uint32_t> place = PlaceOf(anchor);
    if (place.load(std::memory_order_relaxed) != hint) [[unlikely]]
      place.store(hint, std::memory_order_relaxed);
  }
  // What so many anchors use of it.
  uint64_t UsedBytes(uint64_t anchors) const {
    return in_use() ? std::min(anchors, mask_ + 1) * sizeof(uint32_t) : 0;
  }

 private:
  struct Free {
    void operator()(uint32_t* blocks) const { std::free(blocks); }
  };
  static constexpr uint64_t kPoolBytes = 1024;
  static constexpr uint64_t kLeast = 1024;
  static constexpr uint64_t kMost = uint64_t{1} << 20;

  std::atomic_ref<uint32_t> PlaceOf(pmem::Offset anchor) const {
    return std::atomic_ref<uint32_t>(blocks_[anchor / pmem::kLineBytes & mask_]);
  }

  uint64_t mask_ = 0;
  std::unique_ptr<uint32_t[], Free> blocks_;  // of roots; what is not in use is not touched either
};

}  // namespace lodgekv::tlbtree
