// The memory of all write buffers: a pool of their own, whose size is limited. A buffer takes its
// parts from it as it grows, and gives all of them back when it is flushed.
//
// Each thread keeps a few free parts; beyond that they are exchanged with the pool in batches,
// under its mutex. Memory is reused for the same kind of part only, so a reader with a stale
// pointer reads a part, if perhaps of another buffer.
//
// INVARIANT: `next` of every part leads to a part, or is null.
//
// Thread-safe; a FreeParts belongs to one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "index/node/dram_arena.h"
#include "index/sptree/write_buffer.h"

namespace lodgekv::sptree {

class BufferPool {
 public:
  // Parts of one kind in a row, of which `first` is a member.
  struct Chain {
    BufferPart* first = nullptr;
    size_t count = 0;

    void Push(BufferPart* part) {
      part->next = first;
      first = part;
      ++count;
    }
    BufferPart* Pop() {
      BufferPart* part = first;
      first = part->next;
      --count;
      return part;
    }
  };
  // Of a thread.
  struct FreeParts {
    Chain heads;  // each the beginning of a WriteBuffer
    Chain parts;
  };
  enum class Limited : bool { kNo, kYes };

  // The limit on its bytes, which may grow and shrink with the tree.
  BufferPool(DramArena& dram, std::function<uint64_t()> limit)
      : dram_(dram), limit_(std::move(limit)) {}

  // An empty buffer. Null: the pool is at its limit, and none is free.
  WriteBuffer* New(FreeParts& own, Limited limited);
  // Makes room for a further pair. False: as above.
  bool Grow(FreeParts& own, Limited limited, WriteBuffer* buffer);
  void Free(FreeParts& own, WriteBuffer* buffer);

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t limit_bytes() const { return limit_(); }

 private:
  // What a thread exchanges at once; it keeps twice as many.
  static constexpr size_t kBatch = 32;

  BufferPart* Take(Chain& own, Chain& shared, size_t bytes, Limited limited);
  void Refill(Chain& own, Chain& shared, size_t bytes, Limited limited);
  void Give(Chain& own, Chain& shared, BufferPart* part);

  DramArena& dram_;
  const std::function<uint64_t()> limit_;
  std::mutex mutex_;
  FreeParts shared_;  // under the mutex
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace lodgekv::sptree
