// A group of operations that share two fences, three if a leaf splits: the Group of write_tree.h.
// Their changes of a leaf are collected in a LeafChange, and committed by one store. The protocols
// are the crash tables Group and Split in a group in README.md.
//
// A put of an existing key uses another slot, so that a leaf has one commit. If no slot is free,
// its value changes in its slot, and nothing else in the leaf. A full leaf's head is replaced in
// the group, or the leaf splits, and pairs above all of its keys begin any number of leaves. An
// operation does not join a pass if it needs a slot that is valid until the commit, or a pair that
// has moved.
//
// INVARIANT: a leaf has one commit per pass, and before it nothing valid has changed.
// INVARIANT: a put whose leaf was split for it, but to whose side it does not belong, finds room in
// the next pass, which keeps the leaf's lock. So there are never more new subnodes than puts (times
// Parameters::new_subnodes_of_put), for each of which an atomic batch has a spare one.
// INVARIANT: a thread that holds a lock only tries to get others, and waits for no batch; a thread
// that waits, for a leaf or for a batch, holds no lock. So there is no deadlock.
//
// Used by one thread. The locks of a pass's leaves are held until their commits are durable.
#pragma once

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "index/node/write_tree.h"
#include "index/sstree/leaf_split.h"
#include "index/sstree/leaf_writer.h"
#include "index/sstree/tree_state.h"

namespace lodgekv::sstree {

template <class C>
class PairWriter;

template <class C>
class WriteGroup {
 public:
  using Key = typename C::Key;
  using Seen = SeenLeaf<Leaf>;

  WriteGroup(PairWriter<C>& writer, bool of_batch);
  WriteGroup(const WriteGroup&) = delete;
  WriteGroup& operator=(const WriteGroup&) = delete;

  bool Find(const Key& key, Seen seen);
  bool found() const { return place_.found(); }
  Pair FoundPair() const { return place_.pair(); }
  Joining Remove();
  Joining MakeRoom(const Key& key);
  void Put(Pair pair);
  void Commit();
  bool full() const {
    return leaves_.size() >= (tree_.commits.readers_wait() ? kMostShortHeld : kMostLeaves);
  }
  bool holds_locks() const { return !leaves_.empty(); }

 private:
  static constexpr size_t kMostLeaves = PendingWords::kMost - 1;
  // Limit if a fence is an instruction: sharing it further gains little, while writers wait.
  static constexpr size_t kMostShortHeld = 64;
  // Readers wait for these until the fence.
  static constexpr size_t kMostPublished = 16;

  // Split off a leaf that is held.
  struct SplitLeaf {
    NewLeaf<C> right;
    SplitLeaf* next = nullptr;  // to its right, split off the same leaf
    Leaf* published = nullptr;  // then locked
  };
  // A leaf whose lock is held.
  struct Held {
    Leaf* leaf;
    LeafChange change;
    SplitLeaf* first = nullptr;  // of those that were split off it
    bool awaited = false;        // an operation of the next pass needs it
  };

  Held* Join(const Key& key, Seen seen);
  Held* Hold(Leaf* leaf, const Key& key);
  Held* FindHeld(const Leaf* leaf);
  bool MovesAtUpdate(const LeafChange& change) const;
  bool PutInPlace(LeafChange& change, Pair pair);
  void KeepAwaited();
  void Persist();
  void CommitTogether(std::span<Held*> leaves);

  // group_split.cc
  static SplitLeaf* SplitLeafFor(const Held& held, const Key& key);
  Joining Await();
  Joining RoomInSplitLeaf(const Key& key);
  Joining Split(const Key& key);
  Joining BeginAppend(const Key& key, Pair greatest, const SplitLeaf* after);
  void Append(Pair pair);
  void CommitSplitLeaves();
  void PublishSplitLeaves(Held& held);
  void FreeUnused();

  TreeState<C>& tree_;
  LeafWriter<C> writer_;
  LeafSplitter<C> splitter_;
  const bool of_batch_;
  // Neither grows beyond its initial capacity.
  absl::InlinedVector<Held, kMostLeaves> leaves_;
  absl::InlinedVector<SplitLeaf, kMostLeaves> split_leaves_;
  // Of the key that Find was called with.
  Held* held_ = nullptr;
  LeafChange* change_ = nullptr;  // of the leaf held
  SplitLeaf* target_ = nullptr;   // not null: where the key belongs
  Place place_;
  bool appends_ = false;  // Put begins a leaf, in space_
  Pair greatest_{};       // below the pair that begins it
  pmem::Offset space_ = 0;
  bool changes_ = false;
  bool fences_first_ = false;  // a fence is needed before the commits
};

}  // namespace lodgekv::sstree
