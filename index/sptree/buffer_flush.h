// Merges write buffers into their leaves: each by one two-phase insertion, however many pairs
// (SPTree 4.1), with new values in the slots of the old ones; several leaves under the same two
// fences. The protocol is the crash table Flush in README.md.
//
// INVARIANT: a leaf's watermark is durable after all that it covers, and before a log entry is
// released.
//
// Thread-safe for different leaves; for one leaf, only the holder of its lock may call, which has
// touched it (node/settle_at_touch.h). Needs no space on the medium, and always succeeds.
#pragma once

#include <cstdint>
#include <span>

#include "index/sptree/leaf_writer.h"
#include "index/sptree/tree_state.h"

namespace lodgekv::sptree {

template <class C>
class BufferFlusher {
 public:
  // So many leaves share fences.
  static constexpr size_t kTogether = 8;

  explicit BufferFlusher(TreeState<C>& tree) : tree_(tree), writer_(tree) {}

  // True: a pair has left the leaf.
  bool Empty(Worker& worker, Mnode<C>* leaf) {
    return leaf->buffered() && (Empty(worker, {&leaf, 1}) & 1) != 0;
  }
  // At most kTogether leaves, all buffered. Bit i: a pair has left the leaf i.
  [[gnu::noinline]] unsigned Empty(Worker& worker, std::span<Mnode<C>* const> leaves);
  // The leaf contains all that the log says up to this number; its buffer is empty. Durable on
  // return.
  void RaiseWatermark(Mnode<C>* leaf, uint64_t watermark);

 private:
  // Of one leaf, until its buffer is empty.
  struct Flush {
    LeafChange<C> change;
    WriteBuffer* buffer;
    unsigned gone_count;
    // Value words that leave the leaf, or that nothing refers to any more.
    uint64_t gone[2 * WriteBuffer::kMostPairs];
  };

  void Stage(Flush* flush);
  void CommitAlone(LeafChange<C>* change);
  void Commit(std::span<Flush> flushes);
  void Publish(const Flush& flush);
  void Release(Worker& worker, const Flush& flush);

  TreeState<C>& tree_;
  LeafWriter<C> writer_;
};

}  // namespace lodgekv::sptree
