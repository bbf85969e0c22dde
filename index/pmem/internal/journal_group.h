// A group of the journal in memory: collects entries, and is written as it is. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "index/pmem/internal/journal_blocks.h"
#include "index/pmem/internal/journal_layout.h"
#include "index/pmem/internal/later_stores.h"
#include "index/pmem/medium.h"

namespace lodgekv::pmem {

// Lines of the pool in which libpmemobj writes some words itself: the rows of the chunk table. Such
// words are never replayed from a journal.
struct ForeignWords {
  uint64_t begin_line = 0;
  uint64_t end_line = 0;
  uint8_t ours = JournalEntry::kAllWords;  // in each of these lines

  uint8_t OursOf(uint64_t line) const {
    return line >= begin_line && line < end_line ? ours : JournalEntry::kAllWords;
  }
};

class JournalGroupBuffer {
 public:
  // Room for a group of `bytes`, a multiple of kJournalBlock.
  JournalGroupBuffer(uint64_t bytes, uint64_t pool_lines, const ForeignWords& foreign);

  bool empty() const { return used_ == sizeof(media::JournalGroup); }
  // As it will be written.
  uint64_t bytes() const { return BlockBytes(used_); }
  void Reset() {
    used_ = sizeof(media::JournalGroup);
    later_.Clear();
  }

  // What a group of `bytes` has room for, wherever the lines are.
  static uint64_t MostLines(uint64_t bytes) {
    return (bytes - sizeof(media::JournalGroup)) / (sizeof(uint64_t) + kLineBytes);
  }
  bool HasRoomFor(uint64_t lines) const {
    return capacity_ - used_ >= lines * (sizeof(uint64_t) + kLineBytes);
  }

  // Copies the current content of `lines` of the pool at `base`; `lines` ascend. Stores that wait
  // for `before`, the group before, or for this one are made in the copies. Returns how many lines
  // had room.
  size_t Capture(const char* base, std::span<const uint64_t> lines, const LaterStores& before);
  // The stores that wait for this group.
  LaterStores& later() { return later_; }
  // False: no room.
  bool AddRevocation(uint64_t first_line, uint64_t lines);

  // Makes it the group `sequence`; returns the bytes to write.
  std::span<const std::byte> Seal(uint64_t sequence, uint32_t crc_seed);

 private:
  uint64_t RunAt(std::span<const uint64_t> lines) const;
  void Append(uint64_t word);

  uint64_t capacity_;
  uint64_t pool_lines_;
  ForeignWords foreign_;
  JournalBlocks memory_;
  LaterStores later_;
  uint64_t used_ = sizeof(media::JournalGroup);
};

}  // namespace lodgekv::pmem
