// A split in progress, by itself or in a group. Belongs to its writer, who holds the left leaf's
// lock.
#pragma once

#include <cstdint>

#include "index/lbtree/layout.h"
#include "index/node/codec.h"
#include "index/pmem/pool.h"

namespace lodgekv::lbtree {

template <class C>
struct SplitWork {
  struct Entry {
    Pair pair;
    uint8_t block;
    uint8_t slot;
  };
  media::Block* left;
  bool alt;  // before the split
  bool in_group = false;
  pmem::Offset right = 0;
  Entry entries[kMaxLeafSlots];  // of the left leaf, ascending
  unsigned count = 0;
  unsigned stay = 0;  // how many of them stay
  typename C::Separator separator{};
  bool goes_right = false;  // the new pair belongs to the right leaf
  bool inserted = false;    // by step 1, as in the paper
  Pair moved[kMaxLeafSlots + 1];
  unsigned moved_count = 0;
  Header left_headers[kMaxBlocks];  // first the current ones, then those to be committed
};

}  // namespace lodgekv::lbtree
