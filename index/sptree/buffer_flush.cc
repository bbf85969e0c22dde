// The flush of write buffers; its crash table: README.md, Flush.
#include "index/sptree/buffer_flush.h"

#include <atomic>

#include "index/pmem/crash_point.h"

namespace lodgekv::sptree {

// A new value is stored in the slot of the old one: readers find the key in the buffer, and the log
// has the pair until the watermark is durable.
template <class C>
void BufferFlusher<C>::Stage(Flush* flush) {
  LeafChange<C>* change = &flush->change;
  const WriteBuffer& buffer = *flush->buffer;
  const auto go = [flush](uint64_t value) { flush->gone[flush->gone_count++] = value; };
  for (unsigned i = 0; i < buffer.count; ++i) {
    const Pair pair = buffer.PairAt(i);
    const unsigned slot = buffer.SlotAt(i);
    const bool tombstone =
        buffer.IsTombstone(i) && !tree_.medium.Canary("sptree.flush.tombstone_dropped");
    if (slot == WriteBuffer::kNoSlot) {
      if (buffer.IsTombstone(i)) {
        go(pair.value);
      } else {
        writer_.AddPair(change, pair);
        if (!tree_.parameters.two_phase) CommitAlone(change);
      }
      continue;
    }
    pmem::Word& value = change->leaf->bnode->slots[slot].value;
    const uint64_t old_value = value.LoadRelaxed();
    if (tombstone) {
      LeafWriter<C>::Drop(change, slot);
      go(old_value);
      if (pair.value != old_value) go(pair.value);
    } else if (pair.value != old_value) {
      tree_.medium.Store(value, pair.value);
      change->lines |= 1u << LineOfSlot(slot);
      change->fences = true;
      go(old_value);
    }
  }
}

// Switched off: what is staged counts before the next pair is looked at. Readers learn of it with
// the rest, and the log has it until the watermark is durable.
template <class C>
void BufferFlusher<C>::CommitAlone(LeafChange<C>* change) {
  pmem::Medium& medium = tree_.medium;
  media::Bnode* bnode = change->leaf->bnode;
  writer_.Stage(change);
  LODGEKV_CRASH_POINT(medium, "sptree.flush_alone.1");
  medium.Fence();
  medium.Store(bnode->bitmap, change->bitmap);
  medium.FlushLine(bnode);
  LODGEKV_CRASH_POINT(medium, "sptree.flush_alone.2");
  medium.Fence();
}

// The bitmaps, then the watermarks. Both are in one line, which keeps their order unless its words
// may tear.
template <class C>
void BufferFlusher<C>::Commit(std::span<Flush> flushes) {
  pmem::Medium& medium = tree_.medium;
  bool any = false;
  for (const Flush& flush : flushes) {
    if (!flush.change.changes()) continue;
    any = true;
    media::Bnode* bnode = flush.change.leaf->bnode;
    medium.StoreOrdered(bnode->bitmap, flush.change.bitmap);
    if (medium.strict_order()) medium.FlushLine(bnode);
  }
  if (any && medium.strict_order()) {
    LODGEKV_CRASH_POINT(medium, "sptree.flush.3");
    medium.OrderStores();
  }
  // The canary takes the number of the pair that the flush makes room for.
  const bool own = medium.Canary("sptree.flush.own_number");
  for (const Flush& flush : flushes) {
    media::Bnode* bnode = flush.change.leaf->bnode;
    const uint64_t newest = own ? tree_.pool.PeekSequence() : flush.buffer->newest;
    medium.StoreOrdered(bnode->watermark, CheckedWord(newest));
    medium.FlushLine(bnode);
  }
  LODGEKV_CRASH_POINT(medium, "sptree.flush.4");
  medium.Fence();
}

template <class C>
unsigned BufferFlusher<C>::Empty(Worker& worker, std::span<Mnode<C>* const> leaves) {
  pmem::Medium& medium = tree_.medium;
  Flush space[kTogether];
  const std::span<Flush> flushes(space, leaves.size());
  const bool watermark_first = medium.Canary("sptree.flush.watermark_first");
  bool fences_first = false;
  for (size_t i = 0; i < leaves.size(); ++i) {
    Flush& flush = flushes[i];
    flush.change = LeafChange<C>(leaves[i]);
    flush.buffer = leaves[i]->buffer;
    flush.gone_count = 0;
    if (watermark_first) {
      medium.Store(leaves[i]->bnode->watermark, CheckedWord(flush.buffer->newest));
      medium.FlushLine(leaves[i]->bnode);
    }
    Stage(&flush);
    writer_.Stage(&flush.change);
    fences_first |= LeafWriter<C>::FencesFirst(flush.change);
  }
  LODGEKV_CRASH_POINT(medium, "sptree.flush.1");
  if (fences_first) medium.OrderStores();
  LODGEKV_CRASH_POINT(medium, "sptree.flush.2");
  Commit(flushes);
  for (const Flush& flush : flushes) Publish(flush);
  LODGEKV_CRASH_POINT(medium, "sptree.flush.5");
  unsigned removed = 0;
  for (size_t i = 0; i < flushes.size(); ++i) {
    Release(worker, flushes[i]);
    const LeafChange<C>& change = flushes[i].change;
    removed |= (change.old & ~change.bitmap) != 0 ? 1u << i : 0;
  }
  return removed;
}

// Readers that look from here on find all of it in the leaf.
template <class C>
void BufferFlusher<C>::Publish(const Flush& flush) {
  Mnode<C>* leaf = flush.change.leaf;
  LeafCommits<Mnode<C>>::BeginPublish(*leaf);
  std::atomic_ref(leaf->buffer).store(nullptr, std::memory_order_relaxed);
  writer_.SetSlots(leaf, flush.change.bitmap);
  tree_.commits.EndPublish(*leaf);
}

// After a failed sync the leaf may lack what the logs have.
template <class C>
void BufferFlusher<C>::Release(Worker& worker, const Flush& flush) {
  const WriteBuffer& buffer = *flush.buffer;
  if (!tree_.medium.failed()) {
    for (unsigned i = 0; i < buffer.count; ++i) tree_.log.Release(buffer.LogAt(i));
  }
  for (unsigned i = 0; i < flush.gone_count; ++i) tree_.RetireRecord(worker, flush.gone[i]);
  worker.counters.Add(WorkerCounters::kBufferFlushes);
  if (buffer.holds_space) worker.counters.Add(WorkerCounters::kHoldingFlushes);
  tree_.buffer_pool.Free(worker.free_buffers, flush.buffer);
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
