// What an inner node has of a child, in 8 bytes: its address; or, of a lower node that is named by
// a number (dram_range.h), this number and the hint of a block that is needed once the child is
// reached (block_hint.h). Number and hint come in one line.
//
// A plain value; null at first.
#pragma once

#include <cstdint>
#include <cstring>

#include "index/node/block_hint.h"

namespace lodgekv {

class alignas(uint64_t) InnerChild {
 public:
  InnerChild() = default;
  explicit InnerChild(void* node) { std::memcpy(static_cast<void*>(this), &node, sizeof(node)); }
  static InnerChild OfNumber(uint32_t number, pmem::Offset block) {
    InnerChild child;
    child.low_ = number;
    child.hint().Note(block);
    return child;
  }

  bool IsNull() const { return node() == nullptr; }
  void* node() const {
    void* node;
    std::memcpy(&node, this, sizeof(node));
    return node;
  }
  uint32_t number() const { return low_; }
  // Refers to this very place: where the word moves, the hint does.
  BlockHint hint() const { return BlockHint(&high_); }

 private:
  uint32_t low_ = 0;
  mutable uint32_t high_ = 0;
};
static_assert(sizeof(InnerChild) == sizeof(void*));

}  // namespace lodgekv
