// Where a block of the medium was, in 4 bytes of DRAM: noted by whoever came by, never believed. It
// is fetched before what leads to it is here; a wrong hint costs the fetch of some lines.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/base/dynamic_annotations.h"
#include "index/pmem/medium.h"

namespace lodgekv {

// A plain value that refers to the 4 bytes, or to none: then nothing is known, and nothing noted.
class BlockHint {
 public:
  BlockHint() = default;
  // The 4 bytes outlive it: inner nodes (inner_child.h) are never given back, and a table is freed
  // when no thread is left in its epoch.
  explicit BlockHint(uint32_t* number) : number_(number) {}
  // 0: none is known.
  pmem::Offset block() const {
    return number_ == nullptr ? 0 : pmem::Offset{Load()} * pmem::kBlockBytes;
  }
  // A block beyond the first TiB has no hint.
  void Note(pmem::Offset block) const {
    const uint64_t number = block / pmem::kBlockBytes;
    if (number_ != nullptr) Store(number <= UINT32_MAX ? static_cast<uint32_t>(number) : 0);
  }
  // Of this and the other neither is none.
  void TakeOver(BlockHint other) const { Store(other.Load()); }

 private:
  uint32_t Load() const {
    return std::atomic_ref<uint32_t>(*number_).load(std::memory_order_relaxed);
  }
  // Not where it is there already: others have the line in their caches. A thread that moves an
  // inner node's children may move these 4 bytes at the same time: then one of the two gets lost.
  void Store(uint32_t number) const {
    if (Load() == number) return;
    ABSL_ANNOTATE_IGNORE_WRITES_BEGIN();
    std::atomic_ref<uint32_t>(*number_).store(number, std::memory_order_relaxed);
    ABSL_ANNOTATE_IGNORE_WRITES_END();
  }

  uint32_t* number_ = nullptr;
};

// Those of the entries of a node; where entries move, so do their hints.
template <unsigned kCount>
class BlockHints {
 public:
  BlockHint At(unsigned i) const { return BlockHint(&numbers_[i]); }
  // A child comes in at `i`, of `count` before; it has none yet.
  void Insert(unsigned i, unsigned count) {
    for (unsigned at = count; at > i; --at) At(at).TakeOver(At(at - 1));
    At(i).Note(0);
  }
  // The child at `i`, of `count`, is removed.
  void Erase(unsigned i, unsigned count) {
    for (unsigned at = i; at + 1 < count; ++at) At(at).TakeOver(At(at + 1));
  }
  // The last ones, from `first` on, go to another node.
  void Move(unsigned first, unsigned count, BlockHints& to) const {
    for (unsigned at = first; at < count; ++at) to.At(at - first).TakeOver(At(at));
  }

 private:
  alignas(pmem::kLineBytes) mutable uint32_t numbers_[kCount] = {};
};

}  // namespace lodgekv
