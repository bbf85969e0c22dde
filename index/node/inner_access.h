// How an InnerTree (inner_tree.h) accesses its lower nodes: what inner nodes have of them, their
// locks, and what is fetched of them. A tree whose lower nodes are on the medium has an Access of
// its own.
#pragma once

#include "index/node/inner_child.h"
#include "index/node/version_lock.h"

namespace lodgekv {

// Inner nodes have the addresses of lower nodes.
template <class Below>
struct ByAddress {
  // Inner nodes have hints of blocks, beside numbers of lower nodes. Then there is
  //   void PrefetchHinted(pmem::Offset block) const;
  static constexpr bool kHinted = false;
  static InnerChild ChildOf(Below* below) { return InnerChild(below); }
  // Of a word that is not null.
  static Below* BelowOf(const InnerChild& child) { return static_cast<Below*>(child.node()); }
};

// The lower nodes are in DRAM and have their own locks.
template <class Below>
struct OwnLock : ByAddress<Below> {
  // There are so few inner nodes that their lines are in the cache: prefetching costs a reader more
  // than it gains. (A writer gains: its stores and flushes have evicted them.)
  static constexpr bool kFetchInnerNodes = false;
  VersionLock& LockOf(Below* below) const { return below->lock; }
  void PrefetchForRead(const Below* below) const { below->PrefetchForRead(); }
  void PrefetchForWrite(const Below* below) const { below->PrefetchForWrite(); }
};

}  // namespace lodgekv
