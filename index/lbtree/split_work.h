// A split on its way (logless_split.cc, group_split.cc).
#pragma once

#include "index/lbtree/lbtree.h"

namespace lodgekv::lbtree {

template <class C>
struct LbTree<C>::SplitWork {
  struct Entry {
    Pair pair;
    uint8_t block;
    uint8_t slot;
  };
  media::Block* left;
  bool alt;  // before
  bool in_group = false;
  pmem::Offset right = 0;
  Entry entries[kMaxLeafSlots];  // of the left leaf, ascending
  unsigned count = 0;
  unsigned stay = 0;  // how many of them
  Separator separator{};
  bool goes_right = false;  // the new pair
  bool inserted = false;    // by step 1, as in the paper
  Pair moved[kMaxLeafSlots + 1];
  unsigned moved_count = 0;
  Header left_headers[kMaxBlocks];  // first as they are, then as they are going to be
};

}  // namespace lodgekv::lbtree
