// What vouches for the contents of a pool that was closed cleanly: a checksum of each chunk whose
// units carry none that would find every flipped bit (nodes and logs), in the chunk's row.
//
// Invariants
//  1. A chunk that Expect has named is verified once, by the first that asks, before anybody
//     believes what is in it; who asks meanwhile waits.
//  2. Nothing is stored in a chunk before it is verified. So the checksum of one that never was
//     still holds at the next clean close, and stays.
//
// Verify, VerifyNext, VerifyAll and Forget are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/internal/chunk_table.h"

namespace lodgekv::pmem {

class ChunkSeal {
 public:
  // `base`: of the pool. `unverified` is kept at the number of chunks that are not verified.
  ChunkSeal(const ChunkTable& table, const char* base, uint32_t crc_seed,
            std::atomic<uint32_t>& unverified)
      : table_(table),
        base_(base),
        crc_seed_(crc_seed),
        unverified_(unverified),
        rows_(std::make_unique<std::atomic<RowState>[]>(table.rows().size())) {}

  // When the pool is closed cleanly: durable on return. Up to `threads` threads add up, this one
  // stores.
  void Make(unsigned threads);

  // Of a sealed pool, before anything in it is used: no chunk is verified.
  void Expect();
  // DataLoss: it does not hold what was sealed.
  absl::Status Verify(const Chunk& chunk);
  // One more of those that are not; false: there is none left.
  absl::StatusOr<bool> VerifyNext();
  // All of them, on up to `threads` threads. Names the first that is damaged.
  absl::Status VerifyAll(unsigned threads);
  // The chunk goes back to the pool: nobody believes any more what is in it.
  void Forget(uint32_t row);

 private:
  enum class RowState : uint8_t { kVerified, kUnverified, kBeingVerified, kDamaged };

  std::vector<Chunk> ChunksToSeal() const;
  uint64_t ContentWord(const Chunk& chunk) const;
  bool HoldsWhatWasSealed(const Chunk& chunk) const;
  RowState VerifyOnce(const Chunk& chunk);
  absl::Status Damage(const Chunk& chunk) const;

  const ChunkTable& table_;
  const char* const base_;
  const uint32_t crc_seed_;
  std::atomic<uint32_t>& unverified_;
  const std::unique_ptr<std::atomic<RowState>[]> rows_;
  std::atomic<uint32_t> next_{0};  // rows before it have been begun
};

}  // namespace lodgekv::pmem
