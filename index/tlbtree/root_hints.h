// Where the roots of sub-indices were when a descent came by, by the place of their anchors in the
// top layer: leaf node and slot. A descent fetches the root together with the anchor, where it
// would wait for one after the other (README, Root hints). Only hints: the anchor says which root
// it is, and a wrong hint costs the fetch of four lines.
//
// In DRAM, empty at first: each array of the top layer has its own. The hints of a leaf node are
// one line, which is fetched with the node.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "index/node/prefetch.h"
#include "index/pmem/medium.h"

namespace lodgekv::tlbtree {

class RootHints {
 public:
  static constexpr unsigned kSlots = pmem::kLineBytes / sizeof(uint32_t);  // of a leaf node

  // That of one anchor, or of none: then nothing is known, and nothing noted.
  class Hint {
   public:
    Hint() = default;
    explicit Hint(uint32_t* block) : block_(block) {}

    explicit operator bool() const { return block_ != nullptr; }
    // The root of the anchor's sub-index, or of another one; 0: none is known.
    pmem::Offset root() const {
      return block_ == nullptr ? 0 : pmem::Offset{Load(block_)} * pmem::kBlockBytes;
    }
    // A root beyond the first TiB has no hint.
    void Note(pmem::Offset root) const {
      if (block_ == nullptr) return;
      const uint64_t block = root / pmem::kBlockBytes;
      const uint32_t known = block <= UINT32_MAX ? static_cast<uint32_t>(block) : 0;
      if (Load(block_) != known) [[unlikely]]
        Store(block_, known);
    }

   private:
    uint32_t* block_ = nullptr;  // of the root
  };

  RootHints() = default;  // without any
  // What is not in use is not touched either.
  explicit RootHints(uint64_t leaf_nodes)
      : bytes_(leaf_nodes * pmem::kLineBytes), space_(std::calloc(bytes_ + pmem::kLineBytes, 1)) {
    if (space_ == nullptr) throw std::bad_alloc();
    void* begin = space_.get();
    size_t room = bytes_ + pmem::kLineBytes;
    blocks_ = static_cast<uint32_t*>(std::align(pmem::kLineBytes, bytes_, begin, room));
  }

  uint64_t bytes() const { return bytes_; }
  Hint At(uint64_t node, unsigned slot) const {
    return blocks_ == nullptr ? Hint() : Hint(&blocks_[node * kSlots + slot]);
  }
  void Fetch(uint64_t node) const {
    if (blocks_ != nullptr) Prefetch(&blocks_[node * kSlots]);
  }
  // The anchors from the slot up to the one before `end` have each moved to the next slot; the one
  // that is there now is another. By one thread at a time.
  void Shift(uint64_t node, unsigned slot, unsigned end) const {
    if (blocks_ == nullptr) return;
    uint32_t* blocks = &blocks_[node * kSlots];
    for (unsigned i = end; i > slot; --i) Store(&blocks[i], Load(&blocks[i - 1]));
    Store(&blocks[slot], 0);
  }

 private:
  struct Free {
    void operator()(void* space) const { std::free(space); }
  };
  static uint32_t Load(uint32_t* block) {
    return std::atomic_ref<uint32_t>(*block).load(std::memory_order_relaxed);
  }
  static void Store(uint32_t* block, uint32_t value) {
    std::atomic_ref<uint32_t>(*block).store(value, std::memory_order_relaxed);
  }

  uint64_t bytes_ = 0;
  std::unique_ptr<void, Free> space_;
  uint32_t* blocks_ = nullptr;
};

}  // namespace lodgekv::tlbtree
