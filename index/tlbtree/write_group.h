// A group of operations that share two fences: the Group of write_tree.h. Their changes of a leaf
// are collected in a state word in DRAM, and committed by one store. The protocol is Group's crash
// table in README.md.
//
// The fence before the commits is omitted if every pair is beside its state word, without a record,
// and words of a line do not tear; it is also omitted if pairs are only removed. A put of an
// existing key uses another slot, so that a leaf has one commit. If no slot is free, its value
// changes in its slot, and nothing else in the leaf. Full leaves split side by side; a leaf that
// was split off is split again in place, since nothing refers to it yet. An operation does not join
// a pass if it needs a lock that covers two leaves, or a slot that is valid until the commit.
//
// Invariants
//  1. A leaf has one commit per pass, and before it nothing valid has changed.
//  2. A pair that would need the slot of a moved one waits for the next pass, which keeps the
//     leaf's lock: so there are never more splits than puts, for each of which an atomic batch has
//     a spare leaf.
//  3. A thread that holds a lock only tries to get others, and waits for no batch; a thread that
//     waits, for a leaf or for a batch, holds no lock. So there is no deadlock.
//
// Used by one thread. The locks of a pass's leaves are held until their commits are durable.
#pragma once

#include <span>

#include "absl/container/inlined_vector.h"
#include "index/node/write_tree.h"
#include "index/tlbtree/leaf_divider.h"
#include "index/tlbtree/leaf_writer.h"

namespace lodgekv::tlbtree {

template <class C>
class PairWriter;
template <class C>
struct SeenNode;

template <class C>
class WriteGroup {
 public:
  using Node = media::Node<C>;
  using Key = typename C::Key;
  using Seen = SeenNode<C>;

  WriteGroup(PairWriter<C>& writer, bool of_batch);
  WriteGroup(const WriteGroup&) = delete;
  WriteGroup& operator=(const WriteGroup&) = delete;

  bool Find(const Key& key, Seen seen);
  bool damaged() const { return damaged_; }
  bool found() const { return slot_ >= 0; }
  Pair FoundPair() const {
    const media::Slot& at = node()->slots[slot_];
    return {at.key.LoadRelaxed(), at.value.LoadRelaxed()};
  }
  Joining Remove();
  Joining MakeRoom(const Key& key);
  void Put(Pair pair);
  void Commit();
  bool full() const {
    return leaves_.size() >= (tree_.locks.leaves().readers_wait() ? kMostShortHeld : kMostLeaves);
  }
  bool holds_locks() const { return !leaves_.empty(); }

 private:
  static constexpr size_t kMostLeaves = 256;
  // Limit if a fence is an instruction: sharing it further gains little, while writers wait.
  static constexpr size_t kMostShortHeld = 64;
  // Readers wait for these until the fence.
  static constexpr size_t kMostPublished = 16;

  // A leaf split off in this pass: nothing refers to it yet, so it is written in place.
  struct NewLeaf {
    Node* leaf;
    Low low;
    NodeState state;
    NewLeaf* next;  // its right neighbour, if split off the same leaf
  };
  // A leaf whose lock is held.
  struct Held {
    Node* leaf;
    VersionLock* lock;
    Low low;
    NodeState state;              // to be committed
    uint32_t busy = 0;            // slots valid until then
    uint32_t lines = 0;           // to be flushed besides the state's
    bool staged = false;          // something was stored beside the state word
    bool awaited = false;         // the next pass needs it, so it keeps the lock
    bool split_before = false;    // in the pass before, which has kept the lock
    pmem::Word* value = nullptr;  // if not null, this word changes instead of the state
    uint64_t new_value = 0;
    NewLeaf* right = nullptr;  // leaves split off it, ascending

    pmem::Word& commit() const { return value != nullptr ? *value : leaf->state; }
    uint64_t commit_word() const { return value != nullptr ? new_value : state.word(); }
    bool changes() const { return commit_word() != commit().LoadRelaxed(); }
  };

  Held* Join(const Key& key, Seen seen);
  Held* Hold(const Seen& seen, VersionLock& lock, const Key& key);
  Held* FindHeld(const VersionLock& lock);
  Node* node() const { return target_ != nullptr ? target_->leaf : held_->leaf; }
  NodeState& state() { return target_ != nullptr ? target_->state : held_->state; }
  void Drop();
  void ChangeInSlot(Pair pair);
  void PersistStaged();
  void CommitLeaves();
  void CommitTogether(std::span<Held*> leaves);
  void NoteSparse();
  void LetGo();

  // group_split.cc
  uint32_t FreeSlots(bool just_split);
  void StoreState();
  Joining Split(const Key& key);
  void StageHeld(NewLeaf* right);
  void StageNew(NewLeaf* right);
  void FlushNewLeaves();
  void NoteNewLeaves();

  TreeState<C>& tree_;
  PairWriter<C>& pairs_;
  Worker& worker_;
  LeafDivider<C> divider_;
  LeafWriter<C> writer_;
  const bool of_batch_;
  // None grows beyond its initial capacity.
  absl::InlinedVector<VersionLock*, kMostLeaves> locks_;  // of leaves_
  absl::InlinedVector<Held, kMostLeaves> leaves_;
  absl::InlinedVector<NewLeaf, kMostLeaves> new_leaves_;
  // Of the key that Find was called with.
  Held* held_ = nullptr;
  NewLeaf* target_ = nullptr;  // not null: where the key belongs
  int slot_ = -1;
  unsigned place_ = 0;
  uint32_t free_ = 0;     // slots that Put may use, as MakeRoom has found
  bool damaged_ = false;  // Find has come to no leaf
  bool changes_ = false;
  bool fences_first_ = false;  // a fence is needed before the commits
};

}  // namespace lodgekv::tlbtree
