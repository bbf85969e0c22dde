// The locks of leaves, in a table beside the tree (node/commit_locks.h).
#pragma once

#include <cstddef>

#include "index/lbtree/distributed_header.h"
#include "index/lbtree/layout.h"
#include "index/node/commit_locks.h"
#include "index/node/inner_access.h"
#include "index/node/prefetch.h"

namespace lodgekv::lbtree {

// A slot of a leaf.
struct Place {
  media::Slot* at = nullptr;  // null: the key is not there
  unsigned block = 0;
  unsigned slot = 0;

  static Place Of(media::Block* leaf, unsigned block, unsigned slot) {
    return {&leaf[block].slots[slot], block, slot};
  }
  bool found() const { return at != nullptr; }
};

// A locked leaf, its lock, and the key's place in it.
struct LockedLeaf {
  media::Block* leaf = nullptr;
  VersionLock* lock = nullptr;
  Place place;

  bool found() const { return place.found(); }
  Pair FoundPair() const { return {place.at->key.LoadRelaxed(), place.at->value.LoadRelaxed()}; }
  void Unlock() { lock->Unlock(); }
};

class LeafLocks : public CommitLocks {
 public:
  using CommitLocks::CommitLocks;

  // The leaf may be changing: the caller validates.
  LeafView ViewOf(const media::Block* leaf) const { return {leaf, PendingOf(leaf)}; }
};

// How the inner tree accesses a leaf on the medium.
struct LeafAccess : ByAddress<media::Block> {
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
