// How a fence is made on an ordinary file, where there is no instruction for it: by a sync of the
// pool (file_sync.h) while it is opened and closed, by the journal (journal.h) in between.
#pragma once

#include <cstdint>

namespace lodgekv::pmem {

class FileFence {
 public:
  virtual ~FileFence() = default;
  // The calling thread has flushed the line that begins at `line` (64-byte aligned, in the pool).
  virtual void Note(const void* line) = 0;
  // True when what the calling thread has noted is durable. False for ever after the first failure.
  virtual bool Fence() = 0;
  // [address, address + bytes), whole lines, goes back to whom it came from, who stores there
  // without us: whatever was fenced there shall not come back after a crash. Durable on return.
  // False: as Fence.
  virtual bool Revoke(const void* address, uint64_t bytes) = 0;
};

}  // namespace lodgekv::pmem
