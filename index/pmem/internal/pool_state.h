// The members of a Pool; for the files that implement it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "index/pmem/full_memo.h"
#include "index/pmem/internal/chunk_seal.h"
#include "index/pmem/internal/chunk_source.h"
#include "index/pmem/internal/chunk_table.h"
#include "index/pmem/internal/file_sync.h"
#include "index/pmem/internal/pool_header.h"
#include "index/pmem/internal/pool_journal.h"
#include "index/pmem/internal/pool_mapping.h"
#include "index/pmem/pool.h"

namespace lodgekv::pmem {

// Checks the engine's name and draws a pool id if there is none.
absl::Status CompleteIdentity(PoolIdentity& identity);

struct Pool::State {
  State(Medium& medium, media::Header* on_media) : header(medium, on_media) {}

  // Locks, in the order of acquisition. An arena's own lock is between the first two.
  std::mutex holder_mu;
  std::mutex chunk_mu;
  mutable std::mutex header_mu;
  mutable std::shared_mutex large_mu;

  std::vector<ChunkHolder*> holders;    // holder_mu
  PoolHeader header;                    // header_mu
  std::unique_ptr<ChunkSource> source;  // chunk_mu
  std::unique_ptr<ChunkTable> table;    // chunk_mu, except for Find
  std::unique_ptr<ChunkSeal> seal;
  // Usable bytes of each large object, so that a reader never waits for the allocator's fence.
  absl::flat_hash_map<Offset, uint64_t> large;  // large_mu

  // By ReservePolicy: the last large object for which there was no room. Larger ones need not be
  // tried.
  struct FullForLarge {
    std::atomic<uint64_t> bytes{UINT64_MAX};
    FullMemo memo;
  };
  std::array<FullForLarge, 2> full_for_large;

  std::unique_ptr<PoolMapping> mapping;  // none in an arena
  std::unique_ptr<FileSync> file_sync;   // of an ordinary file
  FileFence* direct_fence = nullptr;     // fences without the journal, if there is one
  PoolWriteback* files = nullptr;        // of an ordinary file, or of a model of it
  std::unique_ptr<PoolJournal> journal;  // destroyed before its write-back target
};

}  // namespace lodgekv::pmem
