// A leaf's node in DRAM, the Mnode of SPTree 4.1: its range, its lock, which of its slots count, a
// filter of its keys, and their order.
//
// Invariants
//  1. What is here is durable on the medium: readers believe the range and the slots that are here,
//     not the leaf's own words. Tags, keys and values they read in the leaf.
//  2. `right` leads to the node whose `low` is this one's `high`; null: the range has no end.
//  3. `filter` has the key of each slot that counts and of each pair in the buffer, and perhaps
//     others.
//  4. If `sorted`, `seqs` are the slots that count, in the order of their keys, and nobody writes
//     them: readers that validate see no sort. (In the paper they are on the medium, with two
//     versions, and scans write them: after a crash these could be equal and `seqs` wrong.) A leaf
//     that no scan has met has none; once there, they stay with the Mnode's memory.
//  5. `low` and `high` can be read at any moment of a change: a reader compares keys with them
//     before it validates, and may have seen `right` before the change.
//
// Changed by the holder of the lock, between BeginPublish and EndPublish; but for `filter`, to
// which keys are added before, and `seqs`, which a scan sets with the lock held and nothing
// published, and then `sorted`. Readers validate.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "index/node/pending_words.h"
#include "index/node/prefetch.h"
#include "index/node/version_lock.h"
#include "index/sptree/bloom_filter.h"
#include "index/sptree/layout.h"
#include "index/sptree/write_buffer.h"

namespace lodgekv::sptree {

// Two lines, of which all but `seqs` are read by every search.
template <class C>
struct alignas(pmem::kLineBytes) Mnode {
  using Separator = typename C::Separator;

  VersionLock lock;
  uint64_t bitmap;
  media::Bnode* bnode;
  WriteBuffer* buffer;  // null: nothing is buffered
  Mnode* right;
  Separator low;   // owned, as is `high`
  Separator high;  // MinusInfinity, never null, if there is no right one (invariant 5)
  BloomFilter filter;
  PendingWords::Ticket pending;  // of the commit in progress (node/leaf_commit.h)
  uint16_t gone;                 // keys that have left since the filter was made
  std::atomic<bool> sorted;
  bool gap;       // see below
  uint8_t* seqs;  // kBnodeSlots

  // The node of a gap: neighbouring leaves that recovery has not touched yet (first_touch.h).
  // `bnode` is the first of them and `low` its low fence. `high` is equal to `low`, so that it
  // covers no key; they end where the node `right` begins, which is never null.

  // The buffer has something, which the leaf does not have yet.
  bool buffered() const { return Buffered() != nullptr; }
  // For readers, who look once: it may be gone the next time.
  const WriteBuffer* Buffered() const {
    return std::atomic_ref(const_cast<WriteBuffer*&>(buffer)).load(std::memory_order_acquire);
  }
  bool bounded() const { return right != nullptr; }
  bool Covers(const typename C::Key& key) const {
    return C::CompareToKey(low, key) <= 0 && (!bounded() || C::CompareToKey(high, key) > 0);
  }
  void PrefetchForRead() const { PrefetchLines(this, sizeof(Mnode)); }
};
static_assert(sizeof(Mnode<Fixed64Codec>) == 2 * pmem::kLineBytes);
static_assert(sizeof(Mnode<BytesCodec>) == 2 * pmem::kLineBytes);

// With those in its buffer.
template <class C>
uint64_t KeysOf(const Mnode<C>& leaf) {
  const auto in_leaf = static_cast<uint64_t>(std::popcount(leaf.bitmap));
  const WriteBuffer* buffer = leaf.Buffered();
  return buffer != nullptr ? buffer->KeysWith(in_leaf) : in_leaf;
}

}  // namespace lodgekv::sptree
