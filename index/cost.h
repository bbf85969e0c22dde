// What operations cost on the medium. Counted per thread in pmem::Medium, at almost no cost.
#pragma once

#include <cstdint>

namespace lodgekv {

struct Cost {
  uint64_t lines_flushed = 0;      // 64-byte lines written back
  uint64_t fences = 0;             // fences waited for; on an ordinary file a write of the journal
  uint64_t media_writes_256b = 0;  // distinct 256-byte blocks between two fences of a thread
  uint64_t bytes_stored = 0;

  Cost operator-(const Cost& o) const {
    return {lines_flushed - o.lines_flushed, fences - o.fences,
            media_writes_256b - o.media_writes_256b, bytes_stored - o.bytes_stored};
  }
  Cost operator+(const Cost& o) const {
    return {lines_flushed + o.lines_flushed, fences + o.fences,
            media_writes_256b + o.media_writes_256b, bytes_stored + o.bytes_stored};
  }
};

// Running total of the calling thread: subtract two snapshots to get the cost in between.
Cost ThreadCost();

// Sum over all threads, including ended ones. An approximate snapshot while others write.
Cost TotalCost();

}  // namespace lodgekv
