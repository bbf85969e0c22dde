// The locks of leaves, and what readers see of a leaf during a commit.
//
// A writer holds its leaf's lock across its fences, but readers could see a commit's store before
// it is durable. If a fence is an instruction, they wait from the store until its fence
// (VersionLock::BeginPublish). If a fence waits for a disk, they read the word's old value
// meanwhile (node/pending_word.h). Around a commit, which is one store, its writer calls
//
//   BeginCommit(locked, word);   then it stores, flushes, fences
//   BeginPublish(locked);        then it changes its DRAM data, if any
//   EndPublish(locked);
//
// Thread-safe: only the holder of the leaf's lock calls Begin and End methods.
//
// INVARIANT: a leaf has at most one word that was stored by a commit and is not yet durable, since
// its lock has at most one.
#pragma once

#include <cstddef>
#include <memory>

#include "index/lbtree/distributed_header.h"
#include "index/lbtree/layout.h"
#include "index/node/pending_word.h"
#include "index/node/prefetch.h"
#include "index/node/striped_locks.h"
#include "index/pmem/pool.h"

namespace lodgekv::lbtree {

// A slot of a leaf.
struct Place {
  unsigned block = 0;
  int slot = -1;  // -1: the key is not there
  bool found() const { return slot >= 0; }
};

// A locked leaf, its lock, and the key's place in it.
struct LockedLeaf {
  media::Block* leaf = nullptr;
  VersionLock* lock = nullptr;
  Place place;

  bool found() const { return place.found(); }
  Pair FoundPair() const { return SlotPair(leaf[place.block], static_cast<unsigned>(place.slot)); }
  void Unlock() { lock->Unlock(); }
};

class LeafLocks {
 public:
  LeafLocks(const pmem::Pool& pool, bool long_fences)
      : locks_(pool.base(), pool.bytes()),
        pending_(long_fences ? std::make_unique<PendingWord[]>(locks_.count()) : nullptr) {}

  VersionLock& Of(const media::Block* leaf) const { return locks_.Of(leaf); }
  // The leaf may be changing: the caller validates.
  LeafView ViewOf(const media::Block* leaf) const {
    return {leaf, pending_ == nullptr ? nullptr : &pending_[locks_.IndexOf(leaf)]};
  }
  // True: readers wait from a commit's store to its fence. False: they see the word's old value.
  bool readers_wait() const { return pending_ == nullptr; }

  void BeginCommit(const LockedLeaf& locked, const media::Word& word) const {
    if (pending_ == nullptr) {
      locked.lock->BeginPublish();
    } else {
      pending_[locks_.IndexOf(locked.leaf)].Set(word);
    }
  }
  // Call when the commit is durable.
  void BeginPublish(const LockedLeaf& locked) const {
    if (pending_ != nullptr) locked.lock->BeginPublish();
  }
  void EndPublish(const LockedLeaf& locked) const {
    if (pending_ != nullptr) pending_[locks_.IndexOf(locked.leaf)].Clear();
    locked.lock->EndPublish();
  }

  void LockAll() const { locks_.LockAll(); }
  void UnlockAll() const { locks_.UnlockAll(); }
  size_t bytes() const { return locks_.bytes(); }

 private:
  const StripedLocks locks_;
  // One for each lock; null if a fence is an instruction.
  const std::unique_ptr<PendingWord[]> pending_;
};

// How the inner tree accesses a leaf on the medium.
struct LeafAccess {
  static constexpr bool kFetchInnerNodes = true;  // there are many small leaves
  const LeafLocks* locks;
  unsigned blocks;

  VersionLock& LockOf(const media::Block* leaf) const { return locks->Of(leaf); }
  // All lines of a small leaf: the medium reads 256 bytes at once anyway. Of a larger one the lines
  // with a header. The lock, which is read at once, needs no prefetching.
  void PrefetchForRead(const media::Block* leaf) const {
    const char* at = reinterpret_cast<const char*>(leaf);
    if (blocks == 1) [[likely]] {
      for (unsigned line = 0; line < kBlockLines; ++line) Prefetch(at + line * pmem::kLineBytes);
      return;
    }
    PrefetchHeaders(at);
  }
  void PrefetchForWrite(const media::Block* leaf) const { PrefetchForRead(leaf); }

 private:
  [[gnu::noinline]] void PrefetchHeaders(const char* at) const {
    for (unsigned b = 0; b < blocks; ++b, at += sizeof(media::Block)) {
      Prefetch(at);
      Prefetch(at + sizeof(media::Block) - pmem::kLineBytes);
    }
  }
};

}  // namespace lodgekv::lbtree
