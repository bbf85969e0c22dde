// Merges a leaf's write buffer into the leaf: all of it in one two-phase insertion, however many
// pairs (SPTree 4.1), with new values in the slots of the old ones. The protocol is the crash table
// Flush in README.md.
//
// INVARIANT: the watermark is durable after all that it covers, and before a log entry is released.
//
// Thread-safe for different leaves; for one leaf, only the holder of its lock may call, which has
// touched it (node/settle_at_touch.h). Needs no space on the medium, and always succeeds.
#pragma once

#include <cstdint>

#include "index/sptree/leaf_writer.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class BufferFlusher {
 public:
  explicit BufferFlusher(TreeState<C>& tree) : tree_(tree), writer_(tree) {}

  // True: a pair has left the leaf.
  bool Empty(Worker& worker, Mnode<C>* leaf) {
    return leaf->buffered() && MergePairs(worker, leaf);
  }
  // The leaf contains all that the log says up to this number; its buffer is empty. Durable on
  // return.
  void RaiseWatermark(Mnode<C>* leaf, uint64_t watermark);

 private:
  [[gnu::noinline]] bool MergePairs(Worker& worker, Mnode<C>* leaf);
  void Stage(LeafChange<C>* change, uint64_t* gone, unsigned* gone_count);
  void Commit(const LeafChange<C>& change);

  TreeState<C>& tree_;
  LeafWriter<C> writer_;
};

}  // namespace lodgekv::sptree
