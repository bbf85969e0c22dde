// The locks of leaves and of anchors, all in DRAM.
//
// A leaf's lock protects its content; around a commit its writer follows node/commit_locks.h. An
// anchor's lock protects the sub-index above its leaves: the anchor itself, the root over the
// leaves, and which leaves are there (sub_indices.h).
//
// Order: who holds a leaf's lock waits for no other lock. Who holds an anchor's lock may take
// leaves' locks; another anchor's is only tried.
//
// Thread-safe.
#pragma once

#include <cstddef>

#include "index/node/commit_locks.h"
#include "index/node/striped_locks.h"
#include "index/pmem/pool.h"
#include "index/tlbtree/layout.h"
#include "index/tlbtree/links.h"
#include "index/tlbtree/node_state.h"

namespace lodgekv::tlbtree {

// A leaf as a reader may see it: only durable content. The leaf may be changing: the caller
// validates. `pending` belongs to the leaf's lock; null: readers wait while a commit is in
// progress.
template <class C>
class LeafView {
 public:
  LeafView(const media::Node<C>* leaf, const PendingWord* pending)
      : leaf_(leaf), pending_(pending), state_(Load(leaf->state)) {}

  const NodeState& state() const { return state_; }
  LinkTo sibling() const { return LoadLink(leaf_->sibling[state_.alt()]); }
  Pair PairAt(unsigned slot) const {
    const media::Slot& at = leaf_->slots[slot];
    return {at.key.LoadRelaxed(), Load(at.value)};
  }

 private:
  uint64_t Load(const pmem::Word& word) const {
    return pending_ == nullptr ? word.Load() : pending_->Durable(word);
  }

  const media::Node<C>* leaf_;
  const PendingWord* pending_;
  NodeState state_;
};

template <class C>
class NodeLocks {
 public:
  using Node = media::Node<C>;

  NodeLocks(const pmem::Pool& pool, bool long_fences)
      : leaves_(pool, long_fences), anchors_(pool.base(), pool.bytes()) {}

  VersionLock& Of(const Node* leaf) const { return leaves_.Of(leaf); }
  VersionLock& Of(const media::Anchor* anchor) const { return anchors_.Of(anchor); }
  LeafView<C> ViewOf(const Node* leaf) const { return {leaf, leaves_.PendingOf(leaf)}; }
  const CommitLocks& leaves() const { return leaves_; }

  // Waits for all writers.
  void LockAll() const {
    anchors_.LockAll();
    leaves_.LockAll();
  }
  void UnlockAll() const {
    leaves_.UnlockAll();
    anchors_.UnlockAll();
  }
  size_t bytes() const { return leaves_.bytes() + anchors_.bytes(); }

 private:
  const CommitLocks leaves_;
  const StripedLocks anchors_;
};

// A locked leaf, and the key's place in it. A null leaf: something is damaged on the way to it.
template <class C>
struct LockedLeaf {
  media::Node<C>* leaf = nullptr;
  VersionLock* lock = nullptr;
  Low low;             // of the leaf
  int slot = -1;       // -1: the key is not there
  unsigned place = 0;  // of the key in the order, or where it would be

  bool damaged() const { return leaf == nullptr; }
  bool found() const { return slot >= 0; }
  Pair FoundPair() const {
    const media::Slot& at = leaf->slots[slot];
    return {at.key.LoadRelaxed(), at.value.LoadRelaxed()};
  }
  void Unlock() {
    if (lock != nullptr) lock->Unlock();
  }
};

}  // namespace lodgekv::tlbtree
