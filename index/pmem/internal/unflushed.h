// What an opening does about contents that nobody has flushed: stored with durability `process`,
// or given up by the kernel after a failed sync (dirty_page.h). The unflushed word (pool_header.h)
// says that there are any. The crash table is in README.md of index/pmem.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "index/pmem/internal/pool_header.h"
#include "index/pmem/internal/pool_writeback.h"
#include "index/pmem/medium.h"
#include "index/pmem/pool.h"

namespace lodgekv::pmem {

// The parts of a pool. Its header is loaded, and its fences are made without a journal.
struct UnflushedPool {
  PoolHeader& header;
  Medium& medium;
  const char* base = nullptr;
  uint64_t bytes = 0;
  PoolWriteback* files = nullptr;  // with FlushMode::kFile
  unsigned threads = 1;            // at most this many
};

// Makes all of it durable, and then clears the word. Does nothing where the word is not set.
absl::StatusOr<FlushAtOpen> PersistUnflushed(const UnflushedPool& pool);

}  // namespace lodgekv::pmem
