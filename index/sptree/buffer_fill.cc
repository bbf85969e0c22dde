#include "index/sptree/buffer_fill.h"

#include <atomic>

namespace lodgekv::sptree {

// For one more pair, which follows at once. Readers may see a buffer without pairs.
template <class C>
bool BufferFill<C>::TakeSpace(Worker& worker, Mnode<C>* leaf, BufferPool::Limited limited) const {
  if (leaf->buffered()) return tree_.buffer_pool.Grow(worker.free_buffers, limited, leaf->buffer);
  WriteBuffer* fresh = tree_.buffer_pool.New(worker.free_buffers, limited);
  std::atomic_ref(leaf->buffer).store(fresh, std::memory_order_release);
  return fresh != nullptr;
}

// What it replaces in the buffer is no longer needed, nor is its record, unless the leaf has it
// too, or the new one names it.
template <class C>
void BufferFill<C>::Put(Worker& worker, const LockedLeaf<C>& held, Pair pair, LogOp op,
                        uint64_t sequence, uint32_t log) const {
  Mnode<C>* leaf = held.leaf;
  WriteBuffer& buffer = *leaf->buffer;
  const bool supersedes = held.place >= 0;
  const unsigned at = supersedes ? static_cast<unsigned>(held.place) : buffer.count;
  const uint64_t old_value = supersedes ? buffer.PairAt(at).value : 0;
  const uint32_t old_log = supersedes ? buffer.LogAt(at) : AppendLog::kNoLog;
  const bool holds = op == LogOp::kDelete || (C::kRecords && held.slot >= 0);
  if (holds && !buffer.holds_space) worker.counters.Add(WorkerCounters::kHolding);
  const uint8_t slot = held.slot < 0 ? WriteBuffer::kNoSlot : static_cast<uint8_t>(held.slot);
  leaf->filter.Add(tree_.codec.HashOf(pair));
  LeafCommits<Mnode<C>>::BeginPublish(*leaf);
  buffer.Set(at, pair, slot, op == LogOp::kDelete, log);
  buffer.newest = sequence;
  buffer.holds_space |= holds;
  tree_.commits.EndPublish(*leaf);
  if (!supersedes) return;
  worker.counters.Add(WorkerCounters::kSuperseded);
  if (tree_.medium.failed()) return;
  tree_.log.Release(old_log);
  const bool in_leaf =
      held.slot >= 0 && SlotPair(*leaf->bnode, static_cast<unsigned>(held.slot)).value == old_value;
  if (!in_leaf && old_value != pair.value) tree_.RetireRecord(worker, old_value);
}

template class BufferFill<Fixed64Codec>;
template class BufferFill<BytesCodec>;

}  // namespace lodgekv::sptree
