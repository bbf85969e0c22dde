// Writes to log and buffer; their protocol: README.md, A buffered write.
#include "index/sptree/buffered_writes.h"

#include <bit>
#include <new>

#include "index/node/log_fence.h"
#include "index/node/record.h"

namespace lodgekv::sptree {

namespace {
constexpr size_t kBuffersAtOnce = 8;

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
                    MakeRoom(worker, held, op, capacity) &&
                    tree_.log.ReserveInOneLog(1, pmem::ReservePolicy::kKeep);
  if (!room) {
    EmptyBuffer(worker, held.leaf);
    return false;
  }
  uint64_t sequence;
  const uint32_t log = Log(pair, op, &sequence);
  Buffer(worker, held, pair, op, sequence, log);
  worker.counters.Add(WorkerCounters::kBuffered);
  // A leaf without keys may be merged.
  if (op == LogOp::kDelete && KeysOf(*held.leaf) == 0) EmptyBuffer(worker, held.leaf);
  return true;
}

// A merge is considered when the pairs that were deleted have left the leaf.
template <class C>
void BufferedWrites<C>::EmptyBuffer(Worker& worker, Mnode<C>* leaf) {
  const bool removed = flusher_.Empty(worker, leaf);
  if (removed) merger_.NoteIfSparse(worker, *leaf, C::KeyOf(leaf->low));
}

template <class C>
bool BufferedWrites<C>::Restore(Worker& worker, const LockedLeaf<C>& held, Pair pair, LogOp op,
                                uint64_t sequence, uint32_t log) {
  if (!MakeRoom(worker, held, op, WriteBuffer::kMostPairs)) {
    EmptyBuffer(worker, held.leaf);
    return false;
  }
  Buffer(worker, held, pair, op, sequence, log);
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
                                 unsigned capacity) {
  Mnode<C>* leaf = held.leaf;
  if (leaf->buffer == nullptr) NewBuffer(tree_, worker, leaf);
  if (held.place >= 0) return HasSlot(held, op);
  if (leaf->buffer->count >= capacity || !HasSlot(held, op)) EmptyBuffer(worker, leaf);
  return HasSlot(held, op);
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

// What it replaces in the buffer is no longer needed, nor is its record, unless the leaf has it
// too, or the new one names it.
template <class C>
void BufferedWrites<C>::Buffer(Worker& worker, const LockedLeaf<C>& held, Pair pair, LogOp op,
                               uint64_t sequence, uint32_t log) {
  Mnode<C>* leaf = held.leaf;
  WriteBuffer& buffer = *leaf->buffer;
  const bool supersedes = held.place >= 0;
  const unsigned at = supersedes ? static_cast<unsigned>(held.place) : buffer.count;
  const uint64_t old_value = supersedes ? buffer.values[at] : 0;
  const uint32_t old_log = supersedes ? buffer.logs[at] : AppendLog::kNoLog;
  const bool holds = op == LogOp::kDelete || (C::kRecords && held.slot >= 0);
  if (holds && !buffer.holds_space) worker.counters.Add(WorkerCounters::kHolding);
  leaf->filter.Add(tree_.codec.HashOf(pair));
  LeafCommits<Mnode<C>>::BeginPublish(*leaf);
  if (!supersedes) {
    buffer.slots[at] = held.slot < 0 ? WriteBuffer::kNoSlot : static_cast<uint8_t>(held.slot);
  }
  buffer.Set(at, pair, op == LogOp::kDelete, log);
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

template <class C>
void BufferedWrites<C>::NewBuffer(TreeState<C>& tree, Worker& worker, Mnode<C>* leaf) {
  if (worker.fresh_buffer_count == 0) {
    worker.fresh_buffers =
        static_cast<WriteBuffer*>(tree.dram.Allocate(kBuffersAtOnce * sizeof(WriteBuffer)));
    worker.fresh_buffer_count = kBuffersAtOnce;
  }
  --worker.fresh_buffer_count;
  LeafCommits<Mnode<C>>::BeginPublish(*leaf);
  leaf->buffer = new (worker.fresh_buffers++) WriteBuffer{};
  tree.commits.EndPublish(*leaf);
}

template class BufferedWrites<Fixed64Codec>;
template class BufferedWrites<BytesCodec>;

}  // namespace lodgekv::sptree
