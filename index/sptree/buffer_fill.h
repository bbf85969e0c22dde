// Puts what the log has into a leaf's write buffer, where readers find it from then on: for writes,
// and for leaves that take what a crash has left in the log.
//
// Thread-safe for different leaves; for one leaf, only the holder of its lock may call.
#pragma once

#include <cstdint>

#include "index/node/log_layout.h"
#include "index/sptree/locked_leaf.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class BufferFill {
 public:
  explicit BufferFill(TreeState<C>& tree) : tree_(tree) {}

  // False: the memory of buffers is at its limit.
  bool TakeSpace(Worker& worker, Mnode<C>* leaf, BufferPool::Limited limited) const;
  // Of a log entry that is durable. Where it replaces nothing there is space, and a slot in the
  // leaf (write_buffer.h, invariant 2).
  void Put(Worker& worker, const LockedLeaf<C>& held, Pair pair, LogOp op, uint64_t sequence,
           uint32_t log) const;

 private:
  TreeState<C>& tree_;
};

}  // namespace lodgekv::sptree
