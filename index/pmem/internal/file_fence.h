// The implementation of a fence on an ordinary file, where there is no instruction for it: a sync
// of the pool (file_sync.h) while it is opened and closed, the journal (journal.h) in between.
#pragma once

#include <cstdint>

namespace lodgekv::pmem {

class FileFence {
 public:
  virtual ~FileFence() = default;
  // The calling thread has flushed the line that begins at `line` (64-byte aligned, in the pool).
  virtual void Note(const void* line) = 0;
  // True: StoreLater can be called. False: the caller fences and stores instead.
  virtual bool stores_later() const { return false; }
  // The calling thread's next Fence makes `value` durable in `word`, a word of the pool, and then
  // stores it there: after a crash the word holds it only if everything that the thread has noted
  // so far, and stored by an earlier call, is durable. If no Fence follows, it is never stored.
  // False: as Fence.
  virtual bool StoreLater(uint64_t* /*word*/, uint64_t /*value*/) { return false; }
  // Returns true when what the calling thread has noted is durable. Always false after the first
  // failure.
  virtual bool Fence() = 0;
  // [address, address + bytes), whole lines, is returned to its allocator, which stores there
  // without a Medium: nothing fenced there before may reappear after a crash. Durable on return.
  // False: as Fence.
  virtual bool Revoke(const void* address, uint64_t bytes) = 0;
};

}  // namespace lodgekv::pmem
