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

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "index/node/block_hint.h"
#include "index/node/prefetch.h"
#include "index/pmem/medium.h"

namespace lodgekv::tlbtree {

class RootHints {
 public:
  static constexpr unsigned kSlots = pmem::kLineBytes / sizeof(uint32_t);  // of a leaf node

  RootHints() = default;  // without any
  // What is not in use is not touched either.
  explicit RootHints(uint64_t leaf_nodes)
      : bytes_(leaf_nodes * pmem::kLineBytes), space_(std::calloc(bytes_ + pmem::kLineBytes, 1)) {
    if (space_ == nullptr) throw std::bad_alloc();
    void* begin = space_.get();
    size_t room = bytes_ + pmem::kLineBytes;
    lines_ = static_cast<Line*>(std::align(pmem::kLineBytes, bytes_, begin, room));
  }

  uint64_t bytes() const { return bytes_; }
  // Of the root of an anchor's sub-index.
  BlockHint At(uint64_t node, unsigned slot) const {
    return lines_ == nullptr ? BlockHint() : lines_[node].At(slot);
  }
  void Fetch(uint64_t node) const {
    if (lines_ != nullptr) Prefetch(&lines_[node]);
  }
  // The anchors from the slot up to the one before `end` have each moved to the next slot; the one
  // that is there now is another. By one thread at a time.
  void Shift(uint64_t node, unsigned slot, unsigned end) const {
    if (lines_ == nullptr) return;
    lines_[node].Insert(slot, end);
  }

 private:
  using Line = BlockHints<kSlots>;  // of a leaf node
  static_assert(sizeof(Line) == pmem::kLineBytes);
  struct Free {
    void operator()(void* space) const { std::free(space); }
  };

  uint64_t bytes_ = 0;
  std::unique_ptr<void, Free> space_;
  Line* lines_ = nullptr;
};

}  // namespace lodgekv::tlbtree
