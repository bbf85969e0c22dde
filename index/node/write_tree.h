// What a tree without a log must provide for writes: how a leaf is found, locked, staged and
// committed. The rest is shared by all such trees: conditions, records, groups in passes that share
// fences, and atomic batches with an intent:
//
//   point_writes.h   one operation
//   group_writes.h   several, each with its own outcome, under shared fences
//   atomic_batch.h   several, all or none
//
// A tree's Held is a locked leaf with the key's place in it; its Group collects the changes of
// operations in leaves and commits them together. In LB+-Tree these are LockedLeaf and WriteGroup,
// and the tree is PairWriter, in index/lbtree/.
//
// Thread safety: every call may run on several threads at once; a Held and a Group belong to one
// thread.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "index/node/applied_index.h"
#include "index/node/batch_intent.h"
#include "index/node/key_locks.h"
#include "index/node/pending_op.h"
#include "index/node/search_form.h"

namespace lodgekv {

// What a pass of a group does with an operation.
enum class Joining : uint8_t {
  kJoined,  // it is in the group, or decided
  kLater,   // nothing was done: it may join the next pass
  kAlone    // nothing was done: it needs more than a group does
};

// Where the leaf of a key was when Seek looked, and at which version of its lock.
template <class Leaf>
struct SeenLeaf {
  Leaf* leaf = nullptr;
  uint64_t snapshot = 0;
};

// A key of a group, sought before any lock is acquired.
template <class Key, class Seen>
struct SoughtKey {
  Key key;
  Seen seen;
};

// The puts of a batch whose keys fill a word: a bound made of such a key may need a record.
struct LongPuts {
  size_t count = 0;
  size_t longest = 0;  // bytes of the longest key
};

// Held:
//   found, FoundPair   the key's pair, if it is there
//   Unlock             releases the lock
//   damaged            of a tree that may find out, when it goes there, that the way to a key is
//                      damaged: then nothing is locked, and Unlock does nothing
template <class Held>
bool MetDamage(const Held& held) {
  if constexpr (requires { held.damaged(); }) return held.damaged();
  return false;
}

template <class Held>
concept HeldLeaf = requires(Held& held, const Held& looked_at) {
  { looked_at.found() } -> std::same_as<bool>;
  { looked_at.FoundPair() } -> std::same_as<Pair>;
  held.Unlock();
};

// Group, constructed as Group(tree, of_batch); of_batch: the calling thread's batch has locked the
// keys.
//   Find          selects the key's leaf, probably the one seen, for the next calls; acquires its
//                 lock and keeps it. False: it cannot be locked now, or can take nothing more in
//                 this pass. Never waits while the group holds a lock; may wait while it holds none
//   found, FoundPair   the key's pair in that leaf, including the operations that have joined
//   Remove        stages the removal of the pair
//   MakeRoom      kJoined: Put will succeed
//   Put           stages the pair; it replaces the one that is there, if any
//   Commit        makes everything staged durable, then releases the locks except those that the
//                 next pass needs. Each leaf's changes are committed by one store
//   full          it takes no further leaf
//   holds_locks   Commit has kept some
//   damaged       of such a tree: why Find has returned false
template <class Group, class C, class Seen>
concept GroupOfWrites = requires(Group& group, const Group& looked_at, const typename C::Key& key) {
  { group.Find(key, Seen{}) } -> std::same_as<bool>;
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
//   Seek          finds the key's leaf and fetches what a write there needs into the cache, without
//                 waiting for it: a group seeks all of its keys first. The result, a SeenLeaf, may
//                 be outdated when it is used: whoever locks the leaf by it validates it. A
//                 template over the form of search (search_form.h)
//   SeekEach      optional, a template like Seek: for all keys of a group, and faster. Find, Lock
//                 and AwaitWriters get what it has seen, and find out if the key is in another leaf
//   FetchFound    optional: fetches what only the leaf leads to. A group calls it when it has
//                 sought all of its keys, so that the leaves are on their way or here. It waits for
//                 no lock, and may be called with what is outdated
//   FetchRecords  optional, of trees with records: fetches those that a search for the key reads.
//                 Like FetchFound, after it
//   Lock          finds and locks the key's leaf, and waits for it; unless of_batch, also until no
//                 batch has the key (key_locks.h). A template like Seek; by pointer unless a form
//                 is given
//   AwaitWriters  waits until all writers have unlocked the key's leaf that hold its lock now
//   Put, Remove   commit by themselves: durable on return. Put: kOk, or kPoolFull or kDataLoss with
//                 nothing done. Remove: the pair must exist
//   AfterWrite    called without locks: deferred work of the thread. False: a sync has failed
//   ReclaimSpace  an allocation has failed. True: a retry may succeed
// For atomic batches:
//   SetAside      allocates everything that `puts` puts can need besides their records: until
//                 FreeSpare none of them fails for lack of it. False: the pool is full. Of a tree
//                 whose bounds have records on the medium: SetAside(puts, LongPuts)
//   FreeSpare     frees what is left of it
//   CountBatch    one has been committed
template <class Tree, class C>
concept WriteTree = requires(Tree& tree, const typename C::Key& key, typename Tree::Held& held) {
  requires HeldLeaf<typename Tree::Held>;
  requires GroupOfWrites<typename Tree::Group, C, typename Tree::Seen>;
  { tree.template Seek<SearchByPointer>(key) } -> std::same_as<typename Tree::Seen>;
  { tree.template Lock<SearchByPointer>(key, true) } -> std::same_as<typename Tree::Held>;
  { tree.Lock(key, true, typename Tree::Seen{}) } -> std::same_as<typename Tree::Held>;
  tree.AwaitWriters(key, typename Tree::Seen{});
  { tree.Put(held, key, Pair{}) } -> std::same_as<Outcome>;
  tree.Remove(held, key);
  { tree.AfterWrite() } -> std::same_as<bool>;
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

// Seeks the keys of `ops` and appends them to `sought`.
template <class C, WriteTree<C> Tree, class List>
void SeekAll(Tree& tree, std::span<const WriteOp> ops, List& sought) {
  RunBySearchForm(
      [](auto form, const Tree* of, std::span<const WriteOp> its_ops, List* list) {
        using Form = decltype(form);
        const size_t begin = list->size();
        for (const WriteOp& op : its_ops) list->push_back({C::MakeKey(op.key), {}});
        const std::span keys(list->data() + begin, its_ops.size());
        if constexpr (requires { of->template SeekEach<Form>(keys); }) {
          of->template SeekEach<Form>(keys);
        } else {
          for (auto& one : keys) one.seen = of->template Seek<Form>(one.key);
        }
        if constexpr (requires { of->FetchFound(keys[0].key, keys[0].seen); }) {
          for (const auto& one : keys) of->FetchFound(one.key, one.seen);
        }
        if constexpr (requires { of->FetchRecords(keys[0].key, keys[0].seen); }) {
          for (const auto& one : keys) of->FetchRecords(one.key, one.seen);
        }
      },
      &tree, ops, &sought);
}

}  // namespace lodgekv
