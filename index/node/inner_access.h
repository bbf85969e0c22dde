// How an InnerTree (inner_tree.h) accesses its lower nodes: their locks, and what is fetched of
// them; and what its own nodes have for them. A tree whose lower nodes are on the medium has an
// Access of its own.
#pragma once

#include "index/node/version_lock.h"

namespace lodgekv {

// The lower nodes are in DRAM and have their own locks.
template <class Below>
struct OwnLock {
  // There are so few inner nodes that their lines are in the cache: prefetching costs a reader more
  // than it gains. (A writer gains: its stores and flushes have evicted them.)
  static constexpr bool kFetchInnerNodes = false;
  // Nodes have hints of blocks for writers (block_hint.h). Then there is
  //   void PrefetchHinted(pmem::Offset block) const;
  static constexpr bool kHinted = false;
  VersionLock& LockOf(Below* below) const { return below->lock; }
  void PrefetchForRead(const Below* below) const { below->PrefetchForRead(); }
  void PrefetchForWrite(const Below* below) const { below->PrefetchForWrite(); }
};

}  // namespace lodgekv
