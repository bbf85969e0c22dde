// A locked leaf, and where a key is in it and in its write buffer.
#pragma once

#include "index/sptree/mnode.h"

namespace lodgekv::sptree {

template <class C>
struct LockedLeaf {
  Mnode<C>* leaf = nullptr;  // null: something on the way to it is damaged
  int slot = -1;             // in the leaf; -1: the key is not there
  int place = -1;            // in the buffer, which then decides

  bool found() const {
    return place >= 0 ? !leaf->buffer->IsTombstone(static_cast<unsigned>(place)) : slot >= 0;
  }
  Pair FoundPair() const {
    if (place >= 0) return leaf->buffer->PairAt(static_cast<unsigned>(place));
    return SlotPair(*leaf->bnode, static_cast<unsigned>(slot));
  }
  bool damaged() const { return leaf == nullptr; }
  void Unlock() {
    if (leaf != nullptr) [[likely]]
      leaf->lock.Unlock();
  }
};

}  // namespace lodgekv::sptree
