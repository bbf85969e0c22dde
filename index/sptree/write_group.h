// A group of operations that share two fences, one if pairs are only removed: the Group of
// write_tree.h. Their changes of a leaf are collected in a LeafChange, and committed by one store
// of its bitmap. The protocol is the crash table Group in README.md.
//
// A put of an existing key uses another slot, so that a leaf has one commit. If no slot is free,
// its value changes in its slot, and nothing else in the leaf. A full leaf splits in the group,
// once a pass; but a pair above all of its keys is written alone, since it begins a leaf by itself.
// An operation does not join a pass if it needs a slot that counts until the commit.
//
// INVARIANT: the write buffers of the leaves that it holds are empty.
// INVARIANT: a leaf has one commit per pass, and before it nothing that counts has changed.
// INVARIANT: a put whose leaf was split for it, but that belongs to the old leaf's side, finds room
// in the next pass, which keeps the leaf's lock. So there are never more splits than puts, for each
// of which an atomic batch has a spare leaf.
// INVARIANT: a thread that holds a lock only tries to get others, and waits for no batch; a thread
// that waits, for a leaf or for a batch, holds no lock. So there is no deadlock.
//
// Used by one thread. The locks of a pass's leaves are held until their commits are durable.
#pragma once

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "index/node/write_tree.h"
#include "index/sptree/buffered_writes.h"
#include "index/sptree/leaf_merge.h"
#include "index/sptree/leaf_search.h"
#include "index/sptree/leaf_split.h"
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
  bool damaged() const { return damaged_; }
  bool found() const { return slot_ >= 0; }
  Pair FoundPair() const { return SlotPair(*change_->leaf->bnode, static_cast<unsigned>(slot_)); }
  Joining Remove();
  Joining MakeRoom(const Key& key);
  void Put(Pair pair);
  void Commit();
  bool full() const {
    return held_.size() >= (tree_.commits.readers_wait() ? kMostShortHeld : kMostLeaves);
  }
  bool holds_locks() const { return !held_.empty(); }

 private:
  static constexpr size_t kMostLeaves = PendingWords::kMost - 1;
  // Limit if a fence is an instruction: sharing it further gains little, while writers wait.
  static constexpr size_t kMostShortHeld = 64;
  // Readers wait for these until the fence.
  static constexpr size_t kMostPublished = 16;

  // A leaf split off one that is held.
  struct SplitLeaf {
    LeafChange<C> change;
    typename LeafSplitter<C>::Division division;
  };
  // A leaf whose lock is held.
  struct Held {
    LeafChange<C> change;
    SplitLeaf* right = nullptr;
    bool awaited = false;  // an operation of the next pass needs it
    bool alone = false;    // one that is written between the passes splits it

    bool changes() const { return change.changes() || right != nullptr; }
  };

  Held* Join(const Key& key, Seen seen);
  Held* Hold(Mnode<C>* leaf, const Key& key);
  void EmptyBufferOf(Held& held);
  Held* FindHeld(const Mnode<C>* leaf);
  bool ChangeInSlot(Pair pair);
  void PersistChanges();
  void CommitTogether(std::span<Held*> leaves);
  void LetGo();

  // group_split.cc
  static bool GoesRight(const Held& held, const Key& key) {
    return held.right != nullptr && C::CompareToKey(held.right->division.low, key) <= 0;
  }
  bool IsAbove(const Key& key) const;
  Joining Split(const Key& key);
  void LinkSplitLeaves(std::span<Held*> leaves);
  void Publish(Held& held);

  TreeState<C>& tree_;
  const LeafSearch<C> search_;
  LeafWriter<C> writer_;
  LeafMerger<C> merger_;
  LeafSplitter<C> splitter_;
  BufferedWrites<C> buffered_;
  const bool of_batch_;
  // Neither grows beyond its initial capacity.
  absl::InlinedVector<Held, kMostLeaves> held_;
  absl::InlinedVector<SplitLeaf, kMostLeaves> split_leaves_;
  // Of the key that Find was called with.
  Held* at_ = nullptr;
  LeafChange<C>* change_ = nullptr;  // of that leaf, or of the one split off it
  int slot_ = -1;
  bool damaged_ = false;  // Find has come to no leaf
};

}  // namespace lodgekv::sptree
