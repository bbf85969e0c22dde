// Nodes at their first touch after the pool was opened: an answer at once needs a tree that nobody
// has walked. What is read is examined first: its chunk, if the pool was closed cleanly, by its
// checksum (pmem/pool_contents.h), and its words by their own check bits. After a kill its lines
// are flushed as well, since a power cut that comes later must not take back what an answer was
// based on. A sweep in the background touches everything (sweep.h); from its end on nothing is
// examined any more.
//
// Why it suffices to settle what is read: each thread fences a store before the next one that
// depends on it. So at a kill, whatever leads to a node by a store of its own protocol's later step
// shows that the earlier step is durable; what an answer depends on besides is on its path.
//
// Thread-safe. A touch may flush and fence, under any lock and inside an EpochGuard.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "index/pmem/pool.h"

namespace lodgekv::tlbtree {

class FirstTouch {
 public:
  explicit FirstTouch(pmem::Pool& pool) : pool_(pool) {}

  // From here on it is active, and nothing counts as touched. `settle`: lines may not have been
  // flushed.
  void Begin(bool settle);
  bool active() const { return active_.load(std::memory_order_acquire); }
  // Everything has been touched. The memory is kept: a late caller may still look at it.
  void End() { active_.store(false, std::memory_order_release); }

  // Whether the node, or anchor, at `offset` was touched before; also what was allocated since.
  bool IsDone(pmem::Offset offset) const {
    return (WordOf(offset).load(std::memory_order_acquire) >> (BitOf(offset)) & 1) != 0;
  }
  void NoteDone(pmem::Offset offset) {
    if (bits_ != nullptr) {
      WordOf(offset).fetch_or(uint64_t{1} << BitOf(offset), std::memory_order_acq_rel);
    }
  }
  // Call before it is read. False: the chunk is damaged.
  bool Verify(pmem::Offset offset) const { return pool_.contents().EnsureVerified(offset).ok(); }
  // It was examined: makes it durable, and notes it. False: the medium has failed.
  bool Settle(pmem::Offset offset, uint64_t bytes);

 private:
  struct Free {
    void operator()(std::atomic<uint64_t>* bits) const { std::free(bits); }
  };
  std::atomic<uint64_t>& WordOf(pmem::Offset offset) const {
    return bits_.get()[offset / pmem::kLineBytes / 64];
  }
  static unsigned BitOf(pmem::Offset offset) {
    return static_cast<unsigned>(offset / pmem::kLineBytes % 64);
  }

  pmem::Pool& pool_;
  bool settle_ = false;
  std::atomic<bool> active_{false};
  // A bit for each line of the pool; pages that nobody has touched take no memory.
  std::unique_ptr<std::atomic<uint64_t>, Free> bits_;
};

}  // namespace lodgekv::tlbtree
