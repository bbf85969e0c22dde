#include "index/sptree/buffer_reclaim.h"

#include <algorithm>
#include <string>
#include <utility>

#include "index/node/optimistic_section.h"

namespace lodgekv::sptree {

namespace {
constexpr size_t kBuffersForSpace = 256;
// For a thread that found no memory for a buffer.
constexpr unsigned kEntriesForMemory = 16;
}  // namespace

// What is due is put off until several buffers may be flushed together.
template <class C>
void BufferReclaimer<C>::ExamineOldEntries(size_t ops) {
  if (std::exchange(worker_.wants_buffer, false)) Examine(kEntriesForMemory);
  const size_t due = tree_.medium.long_fences() ? std::max<size_t>(ops, tree_.log.owed()) : ops;
  worker_.unexamined += tree_.log.TakeOwed(due);
  if (worker_.unexamined >= BufferFlusher<C>::kTogether || tree_.log.owed() == 0) {
    Examine(std::exchange(worker_.unexamined, 0));
  }
}

template <class C>
void BufferReclaimer<C>::Examine(unsigned entries) {
  for (; entries > 0; --entries) {
    FoundEntry entry;
    const bool any = worker_.old_entries.Next(
        tree_.log, &entry, [&](uint32_t) { worker_.counters.Add(WorkerCounters::kLogReclaims); });
    if (!any) {
      tree_.log.Forgive();
      break;
    }
    typename C::Key key;
    if (KeyOfLogEntry(tree_.pool, tree_.slab, tree_.codec, entry, &worker_.old_key, &key)) {
      HoldIfIn(key, worker_.old_entries.id());
    }
  }
  FlushHeld();
}

// Most entries of an old log are dead: that is found out without a lock.
template <class C>
void BufferReclaimer<C>::HoldIfIn(const typename C::Key& key, uint32_t log) {
  for (Backoff backoff;; backoff.Pause()) {
    uint64_t snapshot;
    Mnode<C>* leaf = tree_.top.FindForWrite(key, &snapshot);
    if (leaf == nullptr) return;  // something is damaged
    if (IsHeld(leaf)) return;
    {
      const OptimisticSection section;
      const WriteBuffer* buffer = leaf->Buffered();
      const bool has = buffer != nullptr && buffer->HasLog(log);
      if (!has && leaf->lock.Validate(snapshot)) return;
    }
    if (!leaf->lock.TryUpgrade(snapshot)) {
      FlushHeld();
      continue;
    }
    tree_.Touch(key);
    if (leaf->buffered() && leaf->buffer->HasLog(log)) return Hold(leaf);
    return leaf->lock.Unlock();
  }
}

template <class C>
bool BufferReclaimer<C>::IsHeld(const Mnode<C>* leaf) const {
  return std::find(held_, held_ + held_count_, leaf) != held_ + held_count_;
}

template <class C>
void BufferReclaimer<C>::Hold(Mnode<C>* leaf) {
  held_[held_count_++] = leaf;
  if (held_count_ == BufferFlusher<C>::kTogether) FlushHeld();
}

template <class C>
void BufferReclaimer<C>::FlushHeld() {
  if (held_count_ == 0) return;
  writes_.EmptyBuffers(worker_, {held_, held_count_});
  for (; held_count_ > 0; --held_count_) held_[held_count_ - 1]->lock.Unlock();
}

// Ends when no more may be flushed: then `*reached` is where to go on.
template <class C>
void BufferReclaimer<C>::FlushFrom(const std::string& from, bool all, size_t* most,
                                   std::string* reached) {
  reached->clear();
  (void)LeafWalk<C>(tree_).ForEach(from, /*lock=*/true, [&](const auto& at) {
    if (at.leaf->buffered() && (all || at.leaf->buffer->holds_space)) {
      Hold(at.leaf);
      --*most;
    } else {
      at.leaf->lock.Unlock();
    }
    if (*most > 0 || !at.bounded) return true;
    *reached = C::TextOf(at.high);
    return false;
  });
  FlushHeld();
}

// What was seen of a leaf that is flushed is outdated then: the group seeks its key once more.
template <class C>
void BufferReclaimer<C>::FlushSought(
    std::span<SoughtKey<typename C::Key, SeenLeaf<Mnode<C>>>> keys) {
  for (const auto& [key, seen] : keys) {
    Mnode<C>* leaf = seen.leaf;
    if (leaf == nullptr) continue;  // something is damaged
    if (!leaf->buffered() || IsHeld(leaf) || !leaf->lock.TryUpgrade(seen.snapshot)) continue;
    tree_.Touch(key);
    Hold(leaf);
  }
  FlushHeld();
}

template <class C>
bool BufferReclaimer<C>::FlushSome() {
  uint64_t filled = 0;
  uint64_t flushed = 0;
  tree_.workers.ForEach([&](const Worker& worker) {
    const auto& values = worker.counters.values;
    flushed += values[WorkerCounters::kHoldingFlushes].Load();
    filled += values[WorkerCounters::kHolding].Load();
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
