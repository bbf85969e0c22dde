// Memory for whole blocks of a journal: aligned, as direct I/O requires.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "index/pmem/internal/journal_layout.h"

namespace lodgekv::pmem {

struct FreeBlocks {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using JournalBlocks = std::unique_ptr<std::byte[], FreeBlocks>;

// The size of `bytes` in whole blocks.
inline constexpr uint64_t BlockBytes(uint64_t bytes) {
  return (bytes + kJournalBlock - 1) / kJournalBlock * kJournalBlock;
}

// `bytes`: a multiple of kJournalBlock. The content is arbitrary.
inline JournalBlocks MakeBlocks(uint64_t bytes) {
  JournalBlocks memory(static_cast<std::byte*>(std::aligned_alloc(kJournalBlock, bytes)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace lodgekv::pmem
