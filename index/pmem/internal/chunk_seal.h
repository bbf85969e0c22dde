// Guards the contents of a pool that was closed cleanly: in each chunk's row, a checksum of the
// chunk if its units have none that would find every flipped bit (nodes and logs).
//
// Invariants
//  1. A chunk that Expect has named is verified once, by the first thread that asks, before any
//     thread believes what is in it; a thread that asks meanwhile waits.
//  2. Nothing is stored in a chunk before it is verified. So the checksum of a chunk that never was
//     verified still holds at the next clean close, and is kept.
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
  // `base`: of the pool. `unverified` is kept equal to the number of chunks that are not verified.
  ChunkSeal(const ChunkTable& table, const char* base, uint32_t crc_seed,
            std::atomic<uint32_t>& unverified)
      : table_(table),
        base_(base),
        crc_seed_(crc_seed),
        unverified_(unverified),
        rows_(std::make_unique<std::atomic<RowState>[]>(table.rows().size())) {}

  // Called when the pool is closed cleanly; durable on return. Up to `threads` threads compute the
  // checksums, this one stores them.
  void Make(unsigned threads);

  // For a sealed pool, before anything in it is used: no chunk is verified yet.
  void Expect();
  // DataLoss: its content is not what was sealed.
  absl::Status Verify(const Chunk& chunk);
  // Verifies one more chunk; false: there is none left.
  absl::StatusOr<bool> VerifyNext();
  // Verifies all, on up to `threads` threads. Names the first damaged one.
  absl::Status VerifyAll(unsigned threads);
  // The chunk is returned to the pool: its content no longer counts.
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
  std::atomic<uint32_t> next_{0};  // verification of the rows before it has been started
};

}  // namespace lodgekv::pmem
