// The locks of leaves that have no metadata in DRAM (striped_locks.h), and what readers see of a
// leaf during a commit. For leaves with metadata: leaf_commit.h.
//
// A writer holds its leaf's lock across its fences, but readers could see a commit's store before
// it is durable. If a fence is an instruction, they wait from the store until its fence
// (VersionLock::BeginPublish). If a fence waits for a disk, they read the word's old value
// meanwhile (pending_word.h). Around a commit, which is one store, its writer calls
//
//   BeginCommit(lock, word);   then it stores, flushes, fences
//   BeginPublish(lock);        then it changes what else readers must not see half done
//   EndPublish(lock);          or EndCommit instead of the two, if there is nothing else
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

namespace lodgekv {

class CommitLocks : public StripedLocks {
 public:
  CommitLocks(const pmem::Pool& pool, bool long_fences)
      : StripedLocks(pool.base(), pool.bytes()),
        pending_(long_fences ? std::make_unique<PendingWord[]>(count()) : nullptr) {}

  // True: readers wait from a commit's store to its fence. False: they see the word's old value.
  bool readers_wait() const { return pending_ == nullptr; }
  // The leaf's commit in progress, if there is one; null: readers wait.
  const PendingWord* PendingOf(const void* leaf) const {
    return pending_ == nullptr ? nullptr : &pending_[IndexOf(leaf)];
  }

  void BeginCommit(VersionLock& lock, const pmem::Word& word) const {
    if (pending_ == nullptr) [[likely]] {
      lock.BeginPublish();
    } else {
      pending_[IndexOfLock(lock)].Set(word);
    }
  }
  // Call when the commit is durable.
  void BeginPublish(VersionLock& lock) const {
    if (pending_ != nullptr) lock.BeginPublish();
  }
  void EndPublish(VersionLock& lock) const {
    if (pending_ != nullptr) pending_[IndexOfLock(lock)].Clear();
    lock.EndPublish();
  }
  void EndCommit(VersionLock& lock) const {
    BeginPublish(lock);
    EndPublish(lock);
  }

 private:
  // One for each lock; null if a fence is an instruction.
  const std::unique_ptr<PendingWord[]> pending_;
};

}  // namespace lodgekv
