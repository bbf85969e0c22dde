// Where the next group goes in the journal: segments in rotation, each reused once all of its
// groups are below the number from which replay would begin. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "index/pmem/internal/journal_layout.h"

namespace lodgekv::pmem {

class JournalSpace {
 public:
  explicit JournalSpace(uint64_t segment_bytes) : segment_bytes_(segment_bytes) {}

  // Whether there is room for a group of `bytes` (a multiple of kJournalBlock, at most a segment).
  bool HasRoom(uint64_t bytes) const {
    return FitsActive(bytes) || segments_[Next()].used_bytes == 0;
  }
  // Returns its place, as an offset in the journal. There must be room.
  uint64_t Take(uint64_t bytes, uint64_t sequence, uint64_t now_ns) {
    if (!FitsActive(bytes)) {
      segments_[active_].full_since_ns = now_ns;
      active_ = Next();
    }
    Segment& segment = segments_[active_];
    const uint64_t offset = kJournalSegmentsBegin + active_ * segment_bytes_ + segment.used_bytes;
    segment.used_bytes += bytes;
    segment.last_sequence = sequence;
    return offset;
  }
  // Groups below `sequence` are no longer needed. The segment in use continues.
  void FreeBelow(uint64_t sequence) {
    for (unsigned i = 0; i < kJournalSegments; ++i) {
      if (i != active_ && segments_[i].last_sequence < sequence) segments_[i] = {};
    }
  }

  // Since when the oldest full segment has been full: time for a checkpoint. 0: none is full.
  uint64_t full_since_ns() const {
    uint64_t oldest = 0;
    for (const Segment& segment : segments_) {
      if (segment.full_since_ns == 0) continue;
      oldest = oldest == 0 ? segment.full_since_ns : std::min(oldest, segment.full_since_ns);
    }
    return oldest;
  }
  uint64_t total_bytes() const { return kJournalSegments * segment_bytes_; }
  uint64_t used_bytes() const {
    uint64_t sum = 0;
    for (const Segment& segment : segments_) sum += segment.used_bytes;
    return sum;
  }

 private:
  struct Segment {
    uint64_t used_bytes = 0;
    uint64_t last_sequence = 0;
    uint64_t full_since_ns = 0;  // 0: in use, or free
  };

  unsigned Next() const { return (active_ + 1) % kJournalSegments; }
  bool FitsActive(uint64_t bytes) const {
    return segments_[active_].used_bytes + bytes <= segment_bytes_;
  }

  const uint64_t segment_bytes_;
  std::array<Segment, kJournalSegments> segments_{};
  unsigned active_ = 0;
};

}  // namespace lodgekv::pmem
