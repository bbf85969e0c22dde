// What a tree without a log supplies to be written to: how a leaf is found, locked, staged and
// committed. What is the same in all of them, conditions, records, groups in passes that share
// fences, atomic batches behind an intent, is written once over it:
//
//   point_writes.h   one operation
//   group_writes.h   several, each with an outcome of its own, under shared fences
//   atomic_batch.h   several, all or none
//
// A tree's Held is a leaf whose lock is held, with the key's place in it; its Group gathers what
// operations change in leaves and commits them together. LB+-Tree's are LockedLeaf, WriteGroup and,
// as the tree, PairWriter in index/lbtree/.
//
// Thread safety: every call may run on several threads at once; a Held and a Group are one
// thread's.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "index/node/applied_index.h"
#include "index/node/batch_intent.h"
#include "index/node/key_locks.h"
#include "index/node/pending_op.h"

namespace lodgekv {

// What a pass of a group does with an operation.
enum class Joining : uint8_t {
  kJoined,  // it is in the group, or decided
  kLater,   // nothing was done: the next pass may take it
  kAlone    // nothing was done: it needs more than a group does
};

// Held:
//   found, FoundPair   the key's pair, if it is there
//   Unlock             lets the lock go
template <class Held>
concept HeldLeaf = requires(Held& held, const Held& looked_at) {
  { looked_at.found() } -> std::same_as<bool>;
  { looked_at.FoundPair() } -> std::same_as<Pair>;
  held.Unlock();
};

// Group, made as Group(tree, of_batch); of_batch: the keys are locked by the calling thread's
// batch.
//   Find          the key's leaf, whose lock it takes and keeps, becomes the one that the next
//                 calls are about. False: it is not to be had now, or takes nothing more in this
//                 pass. It never waits while it holds a lock, and may wait while it holds none
//   found, FoundPair   the key's pair in that leaf, as operations that have joined leave it
//   Remove        stages that the pair goes
//   MakeRoom      kJoined: Put will do
//   Put           stages the pair, in place of the one that is there if there is one
//   Commit        makes durable all that is staged, then lets the locks go but those that the next
//                 pass needs. Each leaf's changes count by one store
//   full          it takes no further leaf
//   holds_locks   Commit has kept some
template <class Group, class C>
concept GroupOfWrites = requires(Group& group, const Group& looked_at, const typename C::Key& key) {
  { group.Find(key) } -> std::same_as<bool>;
  { looked_at.found() } -> std::same_as<bool>;
  { looked_at.FoundPair() } -> std::same_as<Pair>;
  { group.Remove() } -> std::same_as<Joining>;
  { group.MakeRoom(key) } -> std::same_as<Joining>;
  group.Put(Pair{});
  group.Commit();
  { looked_at.full() } -> std::same_as<bool>;
  { looked_at.holds_locks() } -> std::same_as<bool>;
};

// Tree:
//   Lock          finds and locks the key's leaf, and waits for it; unless of_batch, also until no
//                 batch has the key (key_locks.h)
//   Put, Remove   commit it by themselves: durable on return. Put: kOk, kPoolFull or kDataLoss,
//                 nothing having been done. Remove: of a pair that is there
//   AfterWrite    with no lock held: what the thread has put off
//   ReclaimSpace  an allocation has failed. True: it is worth another try
// For atomic batches:
//   SetAside      space for all that `puts` puts can need beside their records: from here to
//                 FreeSpare none of them fails for want of it. False: the pool is full
//   FreeSpare     gives back what is left of it
//   CountBatch    one has been committed
template <class Tree, class C>
concept WriteTree = requires(Tree& tree, const typename C::Key& key, typename Tree::Held& held) {
  requires HeldLeaf<typename Tree::Held>;
  requires GroupOfWrites<typename Tree::Group, C>;
  { tree.Lock(key, true) } -> std::same_as<typename Tree::Held>;
  { tree.Put(held, key, Pair{}) } -> std::same_as<Outcome>;
  tree.Remove(held, key);
  tree.AfterWrite();
  { tree.ReclaimSpace() } -> std::same_as<bool>;
  { tree.SetAside(size_t{1}) } -> std::same_as<bool>;
  tree.FreeSpare();
  tree.CountBatch();
  { tree.stages() } -> std::same_as<OpStages<C>&>;
  { tree.medium() } -> std::same_as<pmem::Medium&>;
  { tree.key_locks() } -> std::same_as<KeyLocks&>;
  { tree.intents() } -> std::same_as<BatchIntents&>;
  { tree.applied() } -> std::same_as<AppliedIndex&>;
};

}  // namespace lodgekv
