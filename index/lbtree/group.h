// The state of a group of operations until its commit (write_group.h). Used by one thread.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "index/lbtree/leaf_locks.h"
#include "index/node/codec.h"

namespace lodgekv::lbtree {

// A new leaf made by a split: nothing refers to it before the group's commit, so it is written in
// place.
template <class C>
struct NewLeaf {
  media::Block* leaf;
  typename C::Separator low;  // lower bound of its keys; owned until the parent refers to the leaf
  NewLeaf* next;              // its right neighbour, if split off the same leaf
};

// A leaf whose lock is held; or, one at a time, the new leaf that an operation works on.
template <class C>
struct GroupLeaf {
  LockedLeaf locked;
  unsigned block = 0;  // the one that changes
  unsigned header_line = 0;
  media::Word* words = nullptr;  // of its header; null: no operation has come to the leaf
  Header header{};               // the header to be committed
  uint32_t committed = 0;        // slots valid until then: none of them is written
  uint32_t lines_to_flush = 0;   // lines of the leaf besides the header's
  bool staged = false;           // something was stored in the block
  bool awaited = false;          // the next pass needs its free slots, so it keeps the lock
  media::Word* value = nullptr;  // if not null, this word changes instead of the header
  uint64_t new_value = 0;
  NewLeaf<C>* right = nullptr;     // leaves split off it, ascending
  GroupLeaf* held = nullptr;       // of a new leaf: the one that it was split off
  NewLeaf<C>* new_leaf = nullptr;  // null: this leaf has readers

  media::Word& commit() const { return value != nullptr ? *value : words[0]; }
  uint64_t commit_word() const { return value != nullptr ? new_value : header.words[0]; }
  bool begun() const { return words != nullptr; }
  bool changes() const { return begun() && commit_word() != commit().LoadRelaxed(); }
  bool touched() const { return staged || value != nullptr || changes(); }
};

// INVARIANT: locks[i] is the lock of leaves[i]; no two leaves share one.
template <class C>
struct Group {
  static constexpr size_t kMostLeaves = 256;
  // Limit if a fence is an instruction: sharing it further gains little, while writers wait.
  static constexpr size_t kMostShortHeld = 64;
  // Readers wait for these until the fence.
  static constexpr size_t kMostPublished = 16;

  explicit Group(bool for_batch) : of_batch(for_batch) {}

  const bool of_batch;
  // None grows beyond its initial capacity.
  absl::InlinedVector<VersionLock*, kMostLeaves> locks;  // of `leaves`
  absl::InlinedVector<GroupLeaf<C>, kMostLeaves> leaves;
  absl::InlinedVector<NewLeaf<C>, kMostLeaves> new_leaves;
  GroupLeaf<C> at_new_leaf;
  bool changes = false;
  bool fences_first = false;  // a fence is needed before the commits
};

}  // namespace lodgekv::lbtree
