// A group of operations that share two fences: the Group of write_tree.h. What they change in a
// leaf is gathered in a header in DRAM, and counts by one store. The protocol is Group's crash
// table in README.md.
//
// The fence before the commits is left out where every pair lies in its header's line, without a
// record, and words of a line do not tear; and where pairs only go. A put of a key that is there
// takes another slot: so a leaf has one commit. Where no slot is free its value changes in its
// slot, and nothing else in the leaf. What does not join a pass: what needs a lock that covers two
// leaves, another block than the one that changes, or a slot that counts until the commit.
//
// INVARIANT: a leaf has one commit in a pass, and until then nothing that counts has changed.
//
// One thread's own. The locks of a pass's leaves are held until their commits are durable.
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

  WriteGroup(PairWriter<C>& writer, bool of_batch);
  WriteGroup(const WriteGroup&) = delete;
  WriteGroup& operator=(const WriteGroup&) = delete;

  bool Find(const Key& key);
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
  GroupLeaf<C>* leaf_ = nullptr;  // the one that Find or MakeRoom has left
};

}  // namespace lodgekv::lbtree
