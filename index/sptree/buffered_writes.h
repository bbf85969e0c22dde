// Writes of one pair by way of the log and the leaf's write buffer (SPTree 4.4): the log entry is
// durable before the pair is in the buffer, where readers find it. The protocol is
// A buffered write in README.md.
//
// A write that cannot be buffered leaves the buffer empty, and the caller writes to the leaf: in a
// pool that is nearly full, where the space of replaced records must not wait; if no log has room;
// and if the leaf is full, for a split.
//
// Thread-safe for different leaves; for one leaf, only the holder of its lock may call.
#pragma once

#include <cstdint>

#include "index/node/log_layout.h"
#include "index/sptree/buffer_fill.h"
#include "index/sptree/buffer_flush.h"
#include "index/sptree/leaf_merge.h"
#include "index/sptree/locked_leaf.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class BufferedWrites {
 public:
  explicit BufferedWrites(TreeState<C>& tree)
      : tree_(tree), fill_(tree), flusher_(tree), merger_(tree) {}

  // True: durable. False: nothing was done, and the buffer is empty.
  bool Write(Worker& worker, const LockedLeaf<C>& held, Pair pair, LogOp op);
  void EmptyBuffer(Worker& worker, Mnode<C>* leaf);
  // Under shared fences: at most BufferFlusher::kTogether leaves, all buffered.
  void EmptyBuffers(Worker& worker, std::span<Mnode<C>* const> leaves);

  // Whether the buffer takes such an entry as it is.
  bool HasRoom(const LockedLeaf<C>& held, LogOp op) const;
  // Puts a pair of a log entry that is durable into the buffer. False: the leaf is full, and the
  // buffer is empty. The leaf must have been touched (node/settle_at_touch.h) unless HasRoom.
  bool Restore(Worker& worker, const LockedLeaf<C>& held, Pair pair, LogOp op, uint64_t sequence,
               uint32_t log);

 private:
  bool HasSlot(const LockedLeaf<C>& held, LogOp op) const;
  bool MakeRoom(Worker& worker, const LockedLeaf<C>& held, LogOp op, unsigned capacity,
                BufferPool::Limited limited);
  uint32_t Log(Pair pair, LogOp op, uint64_t* sequence);

  TreeState<C>& tree_;
  const BufferFill<C> fill_;
  BufferFlusher<C> flusher_;
  LeafMerger<C> merger_;
};

}  // namespace lodgekv::sptree
