// The locks of leaves and of anchors, all in DRAM, and what readers see of a leaf during a commit.
//
// A leaf's lock protects its content. An anchor's lock protects the sub-index above its leaves:
// the anchor itself, the root over the leaves, and which leaves are there (sub_indices.h).
//
// A writer holds its leaf's lock across its fences, but readers could see a commit's store before
// it is durable. If a fence is an instruction, they wait from the store until its fence
// (VersionLock::BeginPublish). If a fence waits for a disk, they read the word's old value
// meanwhile (node/pending_word.h). Around a commit, which is one store, its writer calls
//
//   BeginCommit(leaf, word);   then it stores, flushes, fences
//   BeginPublish(leaf);        then it changes what else readers must not see half done
//   EndPublish(leaf);
//
// Order: who holds a leaf's lock waits for no other lock. Who holds an anchor's lock may take
// leaves' locks; another anchor's is only tried.
//
// Thread-safe: only the holder of the leaf's lock calls Begin and End methods.
//
// INVARIANT: a leaf has at most one word that was stored by a commit and is not yet durable, since
// its lock has at most one.
#pragma once

#include <cstddef>
#include <memory>

#include "index/node/pending_word.h"
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
      : leaves_(pool.base(), pool.bytes()),
        anchors_(pool.base(), pool.bytes()),
        pending_(long_fences ? std::make_unique<PendingWord[]>(leaves_.count()) : nullptr) {}

  VersionLock& Of(const Node* leaf) const { return leaves_.Of(leaf); }
  VersionLock& Of(const media::Anchor* anchor) const { return anchors_.Of(anchor); }
  LeafView<C> ViewOf(const Node* leaf) const {
    return {leaf, pending_ == nullptr ? nullptr : &pending_[leaves_.IndexOf(leaf)]};
  }
  // True: readers wait from a commit's store to its fence. False: they see the word's old value.
  bool readers_wait() const { return pending_ == nullptr; }

  void BeginCommit(const Node* leaf, const pmem::Word& word) const {
    if (pending_ == nullptr) {
      Of(leaf).BeginPublish();
    } else {
      pending_[leaves_.IndexOf(leaf)].Set(word);
    }
  }
  // Call when the commit is durable.
  void BeginPublish(const Node* leaf) const {
    if (pending_ != nullptr) Of(leaf).BeginPublish();
  }
  void EndPublish(const Node* leaf) const {
    if (pending_ != nullptr) pending_[leaves_.IndexOf(leaf)].Clear();
    Of(leaf).EndPublish();
  }

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
  const StripedLocks leaves_;
  const StripedLocks anchors_;
  // One for each lock of a leaf; null if a fence is an instruction.
  const std::unique_ptr<PendingWord[]> pending_;
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
