#include "index/sptree/buffer_reclaim.h"

#include <algorithm>
#include <string>

#include "index/node/optimistic_section.h"

namespace lodgekv::sptree {

namespace {
constexpr size_t kBuffersForSpace = 256;

bool HasLog(const WriteBuffer& buffer, uint32_t log) {
  const uint32_t* end = buffer.logs + buffer.pairs();
  return std::find(buffer.logs, end, log) != end;
}
}  // namespace

template <class C>
void BufferReclaimer<C>::ExamineOldEntries(size_t ops) {
  const size_t due = tree_.medium.long_fences() ? std::max<size_t>(ops, tree_.log.owed()) : ops;
  for (unsigned left = tree_.log.TakeOwed(due); left > 0; --left) {
    FoundEntry entry;
    const bool any = worker_.old_entries.Next(
        tree_.log, &entry, [&](uint32_t) { worker_.counters.Add(WorkerCounters::kLogReclaims); });
    if (!any) return tree_.log.Forgive();
    typename C::Key key;
    if (KeyOfLogEntry(tree_.pool, tree_.slab, tree_.codec, entry, &worker_.old_key, &key)) {
      FlushIfIn(key, worker_.old_entries.id());
    }
  }
}

// Most entries of an old log are dead: that is found out without a lock.
template <class C>
void BufferReclaimer<C>::FlushIfIn(const typename C::Key& key, uint32_t log) {
  for (Backoff backoff;; backoff.Pause()) {
    uint64_t snapshot;
    Mnode<C>* leaf = tree_.top.FindForWrite(key, &snapshot);
    if (leaf == nullptr) return;  // something is damaged
    {
      const OptimisticSection section;
      const bool has = leaf->buffered() && HasLog(*leaf->buffer, log);
      if (!has && leaf->lock.Validate(snapshot)) return;
    }
    if (!leaf->lock.TryUpgrade(snapshot)) continue;
    tree_.Touch(key);
    if (leaf->buffered() && HasLog(*leaf->buffer, log)) writes_.EmptyBuffer(worker_, leaf);
    return leaf->lock.Unlock();
  }
}

// Ends when no more may be flushed: then `*reached` is where to go on.
template <class C>
void BufferReclaimer<C>::FlushFrom(const std::string& from, bool all, size_t* most,
                                   std::string* reached) {
  reached->clear();
  (void)LeafWalk<C>(tree_).ForEach(from, /*lock=*/true, [&](const auto& at) {
    if (at.leaf->buffered() && (all || at.leaf->buffer->holds_space)) {
      writes_.EmptyBuffer(worker_, at.leaf);
      --*most;
    }
    at.leaf->lock.Unlock();
    if (*most > 0 || !at.bounded) return true;
    *reached = C::TextOf(at.high);
    return false;
  });
}

template <class C>
bool BufferReclaimer<C>::FlushSome() {
  uint64_t filled = 0;
  uint64_t flushed = 0;
  tree_.workers.ForEach([&](const Worker& worker) {
    const auto& values = worker.counters.values;
    flushed += values[WorkerCounters::kHoldingFlushes].load(std::memory_order_relaxed);
    filled += values[WorkerCounters::kHolding].load(std::memory_order_relaxed);
  });
  if (filled == flushed) return false;
  size_t most = kBuffersForSpace;
  const std::string lowest = C::TextOf(C::MinusInfinity());
  std::string from = worker_.reclaimed.empty() ? lowest : worker_.reclaimed;
  FlushFrom(from, /*all=*/false, &most, &worker_.reclaimed);
  if (most > 0 && from != lowest) FlushFrom(lowest, /*all=*/false, &most, &worker_.reclaimed);
  return true;
}

template <class C>
void BufferReclaimer<C>::FlushAll() {
  std::string reached;
  size_t most = SIZE_MAX;
  FlushFrom(C::TextOf(C::MinusInfinity()), /*all=*/true, &most, &reached);
}

template class BufferReclaimer<Fixed64Codec>;
template class BufferReclaimer<BytesCodec>;

}  // namespace lodgekv::sptree
