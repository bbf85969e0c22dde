// A group of operations that share two fences: the Group of write_tree.h. Their changes of a leaf
// are collected in a header in DRAM, and committed by one store. The protocol is Group's crash
// table in README.md.
//
// The fence before the commits is omitted if every pair is in its header's line, without a record,
// and words of a line do not tear; it is also omitted if pairs are only removed. A put of an
// existing key uses another slot, so that a leaf has one commit. If no slot is free, its value
// changes in its slot, and nothing else in the leaf. An operation does not join a pass if it needs
// a lock that covers two leaves, another block than the one that changes, or a slot that is valid
// until the commit.
//
// INVARIANT: a leaf has one commit per pass, and before it nothing valid has changed.
//
// Used by one thread. The locks of a pass's leaves are held until their commits are durable.
#pragma once

#include <span>

#include "index/lbtree/group.h"
#include "index/lbtree/group_splitter.h"
#include "index/lbtree/held_leaves.h"
#include "index/lbtree/leaf_writer.h"
#include "index/lbtree/tree_state.h"
#include "index/node/write_tree.h"

namespace lodgekv::lbtree {

template <class C>
class PairWriter;

template <class C>
class WriteGroup {
 public:
  using Key = typename C::Key;
  using Seen = SeenLeaf<media::Block>;

  WriteGroup(PairWriter<C>& writer, bool of_batch);
  WriteGroup(const WriteGroup&) = delete;
  WriteGroup& operator=(const WriteGroup&) = delete;

  bool Find(const Key& key, Seen seen);
  bool found() const { return leaf_->locked.found(); }
  Pair FoundPair() const { return leaf_->locked.FoundPair(); }
  Joining Remove();
  Joining MakeRoom(const Key& key) { return splitter_.MakeRoom(key, &leaf_); }
  void Put(Pair pair);
  void Commit();
  bool full() const {
    return group_.leaves.size() >=
           (tree_.locks.readers_wait() ? Group<C>::kMostShortHeld : Group<C>::kMostLeaves);
  }
  bool holds_locks() const { return !group_.leaves.empty(); }

 private:
  void ChangeInSlot(GroupLeaf<C>& leaf, Pair pair);
  void Drop(Worker& worker, GroupLeaf<C>& leaf);
  void PersistStaged();
  void CommitLeaves();
  void CommitTogether(std::span<GroupLeaf<C>*> leaves);

  TreeState<C>& tree_;
  Group<C> group_;
  HeldLeaves<C> leaves_;
  GroupSplitter<C> splitter_;
  LeafWriter<C> writer_;
  GroupLeaf<C>* leaf_ = nullptr;  // the leaf that Find or MakeRoom has set
};

}  // namespace lodgekv::lbtree
