// A group of operations that share two fences, one if pairs are only removed: the Group of
// write_tree.h. Their changes of a leaf are collected in a LeafChange, and committed by one store
// of its bitmap. The protocol is the crash table Group in README.md.
//
// A put of an existing key uses another slot, so that a leaf has one commit. If no slot is free,
// its value changes in its slot, and nothing else in the leaf. An operation does not join a pass if
// it needs a slot that counts until the commit; one whose leaf has to be split is written alone.
//
// INVARIANT: a leaf has one commit per pass, and before it nothing that counts has changed.
// INVARIANT: a thread that holds a lock only tries to get others, and waits for no batch; a thread
// that waits, for a leaf or for a batch, holds no lock. So there is no deadlock.
//
// Used by one thread. The locks of a pass's leaves are held until their commits are durable.
#pragma once

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "index/node/write_tree.h"
#include "index/sptree/leaf_merge.h"
#include "index/sptree/leaf_search.h"
#include "index/sptree/leaf_writer.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class PairWriter;

template <class C>
class WriteGroup {
 public:
  using Key = typename C::Key;
  using Seen = SeenLeaf<Mnode<C>>;

  WriteGroup(PairWriter<C>& writer, bool of_batch);
  WriteGroup(const WriteGroup&) = delete;
  WriteGroup& operator=(const WriteGroup&) = delete;

  bool Find(const Key& key, Seen seen);
  bool found() const { return slot_ >= 0; }
  Pair FoundPair() const { return SlotPair(*change_->leaf->bnode, static_cast<unsigned>(slot_)); }
  Joining Remove();
  Joining MakeRoom(const Key& key);
  void Put(Pair pair);
  void Commit();
  bool full() const {
    return changes_.size() >= (tree_.commits.readers_wait() ? kMostShortHeld : kMostLeaves);
  }
  bool holds_locks() const { return false; }  // after Commit

 private:
  static constexpr size_t kMostLeaves = 128;
  static_assert(kMostLeaves < PendingWords::kMost);
  // Limit if a fence is an instruction: sharing it further gains little, while writers wait.
  static constexpr size_t kMostShortHeld = 64;
  // Readers wait for these until the fence.
  static constexpr size_t kMostPublished = 16;

  LeafChange<C>* Join(const Key& key, Seen seen);
  LeafChange<C>* Hold(Mnode<C>* leaf, const Key& key);
  LeafChange<C>* FindHeld(const Mnode<C>* leaf);
  bool ChangeInSlot(Pair pair);
  void PersistChanges();
  void CommitTogether(std::span<LeafChange<C>*> changes);
  void LetGo();

  TreeState<C>& tree_;
  const LeafSearch<C> search_;
  LeafWriter<C> writer_;
  LeafMerger<C> merger_;
  const bool of_batch_;
  // Of the leaves held. Does not grow beyond its initial capacity.
  absl::InlinedVector<LeafChange<C>, kMostLeaves> changes_;
  // Of the key that Find was called with.
  LeafChange<C>* change_ = nullptr;
  int slot_ = -1;
};

}  // namespace lodgekv::sptree
