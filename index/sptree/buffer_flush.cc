// The flush of a write buffer; its crash table: README.md, Flush.
#include "index/sptree/buffer_flush.h"

#include <algorithm>

#include "index/pmem/crash_point.h"

namespace lodgekv::sptree {

// A new value is stored in the slot of the old one: readers find the key in the buffer, and the log
// has the pair until the watermark is durable. `gone`: value words that leave the leaf, or that
// nothing refers to any more.
template <class C>
void BufferFlusher<C>::Stage(LeafChange<C>* change, uint64_t* gone, unsigned* gone_count) {
  const WriteBuffer& buffer = *change->leaf->buffer;
  for (unsigned i = 0; i < buffer.count; ++i) {
    const Pair pair = buffer.PairAt(i);
    const unsigned slot = buffer.slots[i];
    if (slot == WriteBuffer::kNoSlot) {
      if (buffer.IsTombstone(i)) {
        gone[(*gone_count)++] = pair.value;
      } else {
        writer_.AddPair(change, pair);
      }
      continue;
    }
    pmem::Word& value = change->leaf->bnode->slots[slot].value;
    const uint64_t old_value = value.LoadRelaxed();
    if (buffer.IsTombstone(i)) {
      LeafWriter<C>::Drop(change, slot);
      gone[(*gone_count)++] = old_value;
      if (pair.value != old_value) gone[(*gone_count)++] = pair.value;
    } else if (pair.value != old_value) {
      tree_.medium.Store(value, pair.value);
      change->lines |= 1u << LineOfSlot(slot);
      change->fences = true;
      gone[(*gone_count)++] = old_value;
    }
  }
}

// The bitmap, then the watermark. One line, which keeps their order unless its words may tear.
template <class C>
void BufferFlusher<C>::Commit(const LeafChange<C>& change) {
  pmem::Medium& medium = tree_.medium;
  media::Bnode* bnode = change.leaf->bnode;
  const uint64_t newest = change.leaf->buffer->newest;
  if (change.bitmap != change.old) {
    medium.Store(bnode->bitmap, change.bitmap);
    if (medium.strict_order()) {
      medium.FlushLine(bnode);
      LODGEKV_CRASH_POINT(medium, "sptree.flush.3");
      medium.Fence();
    }
  }
  // The canary takes the number of the pair that the flush makes room for.
  const bool own = medium.Canary("sptree.flush.own_number");
  medium.Store(bnode->watermark, CheckedWord(own ? tree_.pool.PeekSequence() : newest));
  medium.FlushLine(bnode);
  LODGEKV_CRASH_POINT(medium, "sptree.flush.4");
  medium.Fence();
}

template <class C>
bool BufferFlusher<C>::MergePairs(Worker& worker, Mnode<C>* leaf) {
  pmem::Medium& medium = tree_.medium;
  WriteBuffer& buffer = *leaf->buffer;
  uint64_t gone[2 * WriteBuffer::kMostPairs];
  unsigned gone_count = 0;
  if (medium.Canary("sptree.flush.watermark_first")) {
    medium.Store(leaf->bnode->watermark, CheckedWord(buffer.newest));
    medium.FlushLine(leaf->bnode);
  }
  LeafChange<C> change(leaf);
  Stage(&change, gone, &gone_count);
  writer_.Stage(&change);
  LODGEKV_CRASH_POINT(medium, "sptree.flush.1");
  if (LeafWriter<C>::FencesFirst(change)) medium.Fence();
  LODGEKV_CRASH_POINT(medium, "sptree.flush.2");
  Commit(change);
  uint32_t logs[WriteBuffer::kMostPairs];
  const unsigned count = buffer.count;
  if (buffer.holds_space) worker.counters.Add(WorkerCounters::kHoldingFlushes);
  std::copy_n(buffer.logs, count, logs);
  LeafCommits<Mnode<C>>::BeginPublish(*leaf);
  buffer.Clear();
  writer_.SetSlots(leaf, change.bitmap);
  tree_.commits.EndPublish(*leaf);
  LODGEKV_CRASH_POINT(medium, "sptree.flush.5");
  // After a failed sync the leaf may lack what the logs have.
  if (!medium.failed()) {
    for (unsigned i = 0; i < count; ++i) tree_.log.Release(logs[i]);
  }
  for (unsigned i = 0; i < gone_count; ++i) tree_.RetireRecord(worker, gone[i]);
  worker.counters.Add(WorkerCounters::kBufferFlushes);
  return (change.old & ~change.bitmap) != 0;
}

template <class C>
void BufferFlusher<C>::RaiseWatermark(Mnode<C>* leaf, uint64_t watermark) {
  tree_.medium.Store(leaf->bnode->watermark, CheckedWord(watermark));
  tree_.medium.FlushLine(leaf->bnode);
  tree_.medium.Fence();
}

template class BufferFlusher<Fixed64Codec>;
template class BufferFlusher<BytesCodec>;

}  // namespace lodgekv::sptree
