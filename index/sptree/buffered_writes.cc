// Writes to log and buffer; their protocol: README.md, A buffered write.
#include "index/sptree/buffered_writes.h"

#include <atomic>
#include <bit>

#include "index/node/log_fence.h"
#include "index/node/record.h"

namespace lodgekv::sptree {

namespace {
// By which a log entry knows its record again.
template <class C>
uint32_t RecordCrcOf(const TreeState<C>& tree, Pair pair) {
  if constexpr (C::kRecords) {
    if (C::IsRecord(pair.value)) return ViewRecord(tree.pool, C::RecordOf(pair.value)).crc;
  }
  return 0;
}
}  // namespace

template <class C>
bool BufferedWrites<C>::Write(Worker& worker, const LockedLeaf<C>& held, Pair pair, LogOp op) {
  const unsigned capacity = tree_.parameters.write_buffer_pairs;
  const bool room = !tree_.pool.tight() && !tree_.medium.failed() &&
                    tree_.log.ReserveInOneLog(1, pmem::ReservePolicy::kKeep) &&
                    MakeRoom(worker, held, op, capacity, BufferPool::Limited::kYes);
  if (!room) {
    EmptyBuffer(worker, held.leaf);
    return false;
  }
  uint64_t sequence;
  const uint32_t log = Log(pair, op, &sequence);
  fill_.Put(worker, held, pair, op, sequence, log);
  worker.counters.Add(WorkerCounters::kBuffered);
  // A leaf without keys may be merged.
  if (op == LogOp::kDelete && KeysOf(*held.leaf) == 0) EmptyBuffer(worker, held.leaf);
  return true;
}

// A merge is considered when the pairs that were deleted have left the leaf.
template <class C>
void BufferedWrites<C>::EmptyBuffer(Worker& worker, Mnode<C>* leaf) {
  if (leaf->buffered()) EmptyBuffers(worker, {&leaf, 1});
}

template <class C>
void BufferedWrites<C>::EmptyBuffers(Worker& worker, std::span<Mnode<C>* const> leaves) {
  const unsigned removed = flusher_.Empty(worker, leaves);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if ((removed >> i & 1) == 0) continue;
    merger_.NoteIfSparse(worker, *leaves[i], C::KeyOf(leaves[i]->low));
  }
}

template <class C>
bool BufferedWrites<C>::Restore(Worker& worker, const LockedLeaf<C>& held, Pair pair, LogOp op,
                                uint64_t sequence, uint32_t log) {
  if (!MakeRoom(worker, held, op, WriteBuffer::kMostPairs, BufferPool::Limited::kNo)) {
    EmptyBuffer(worker, held.leaf);
    return false;
  }
  fill_.Put(worker, held, pair, op, sequence, log);
  return true;
}

// Invariant 2 of the buffer.
template <class C>
bool BufferedWrites<C>::HasSlot(const LockedLeaf<C>& held, LogOp op) const {
  if (op != LogOp::kPut || held.found() || held.slot >= 0) return true;
  const uint64_t free_slots = tree_.usable_slots() & ~held.leaf->bitmap;
  const unsigned inserts = held.leaf->buffered() ? held.leaf->buffer->inserts : 0;
  return inserts < static_cast<unsigned>(std::popcount(free_slots));
}

template <class C>
bool BufferedWrites<C>::HasRoom(const LockedLeaf<C>& held, LogOp op) const {
  const bool full = held.place < 0 && held.leaf->buffered() &&
                    held.leaf->buffer->count >= WriteBuffer::kMostPairs;
  return !full && HasSlot(held, op);
}

// A flush changes neither the key's slot nor, if the key is not in the buffer, anything else that
// `held` says.
template <class C>
bool BufferedWrites<C>::MakeRoom(Worker& worker, const LockedLeaf<C>& held, LogOp op,
                                 unsigned capacity, BufferPool::Limited limited) {
  Mnode<C>* leaf = held.leaf;
  if (held.place >= 0) return HasSlot(held, op);
  if (leaf->buffered() && (leaf->buffer->count >= capacity || !HasSlot(held, op))) {
    EmptyBuffer(worker, leaf);
  }
  if (!HasSlot(held, op)) return false;
  if (fill_.TakeSpace(worker, leaf, limited)) return true;
  worker.wants_buffer = true;
  if (!leaf->buffered()) {
    worker.counters.Add(WorkerCounters::kPastBuffers);
    return false;
  }
  worker.counters.Add(WorkerCounters::kStarvedFlushes);
  EmptyBuffer(worker, leaf);
  return fill_.TakeSpace(worker, leaf, limited);
}

// Durable on return.
template <class C>
uint32_t BufferedWrites<C>::Log(Pair pair, LogOp op, uint64_t* sequence) {
  if constexpr (C::kRecords) tree_.horizon.BeginTaking();
  *sequence = tree_.pool.TakeSequence(1);
  const uint32_t log = tree_.log.Append(pair, *sequence, op, 0, RecordCrcOf(tree_, pair));
  EndAppend(tree_.medium);
  FenceLog(tree_.medium);
  if constexpr (C::kRecords) tree_.horizon.EndTaking();
  return log;
}

template class BufferedWrites<Fixed64Codec>;
template class BufferedWrites<BytesCodec>;

}  // namespace lodgekv::sptree
