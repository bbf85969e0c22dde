// A change of one leaf until its commit: which slots will count, and what has been written for it.
// Several operations of a group may join in one. A plain value, used by the thread that holds the
// leaf's lock.
#pragma once

#include <cstdint>

#include "index/sptree/mnode.h"

namespace lodgekv::sptree {

// INVARIANT: nothing is stored in a slot that counts by `old` or by `bitmap`.
template <class C>
struct LeafChange {
  Mnode<C>* leaf = nullptr;
  uint64_t old = 0;             // slots that count until the commit
  uint64_t bitmap = 0;          // and from then on
  uint32_t lines = 0;           // of the leaf, stored to and not flushed
  bool fences = false;          // a fence is needed before the commit
  pmem::Word* value = nullptr;  // if not null, this word changes, and nothing else
  uint64_t new_value = 0;
  bool unlinked = false;  // a new leaf: nothing leads to it, so that it is written in place

  LeafChange() = default;
  explicit LeafChange(Mnode<C>* of) : leaf(of), old(of->bitmap), bitmap(of->bitmap) {}

  uint64_t FreeSlots(uint64_t usable) const { return usable & ~(old | bitmap); }
  bool changes() const { return value != nullptr || bitmap != old; }
};

}  // namespace lodgekv::sptree
