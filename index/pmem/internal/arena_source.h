// Chunks of a pool in plain memory: all exist from the start, one after the other. A large object
// is a run of adjacent chunks; the class word of its first row publishes it.
#pragma once

#include <map>
#include <vector>

#include "index/pmem/internal/chunk_source.h"
#include "index/pmem/internal/pool_header.h"

namespace lodgekv::pmem {

class ArenaSource : public ChunkSource {
 public:
  // Divides the memory after the header into chunks. Fails if not even four fit.
  static absl::StatusOr<PoolGeometry> Cut(uint64_t bytes, uint64_t chunk_bytes);
  // Stores the chunks' offsets in a newly prepared table.
  static void Format(Medium& medium, const PoolHeader& header);

  explicit ArenaSource(const PoolGeometry& geometry) : geometry_(geometry) {}

  absl::Status Load(ChunkTable& table) override;
  bool AddMemory(ChunkTable&, uint32_t) override { return false; }
  void RemoveMemory(ChunkTable&, uint32_t, uint64_t) override {}
  Large ReserveLarge(ChunkTable& table, uint64_t bytes, uint64_t rows_to_keep) override;
  void CommitLarge(ChunkTable& table, Offset offset) override;
  void FreeLarge(ChunkTable& table, Offset offset) override;
  std::vector<Large> LargeObjects() const override;
  uint64_t large_bytes_taken() const override { return large_rows_ * geometry_.chunk_bytes; }
  uint64_t capacity_bytes() const override { return geometry_.chunk_rows * geometry_.chunk_bytes; }

 private:
  struct Run {
    uint32_t row = 0;
    uint32_t rows = 0;
    bool published = false;
  };
  void TakeRun(ChunkTable& table, const Run& run);

  const PoolGeometry geometry_;
  std::map<Offset, Run> runs_;
  uint64_t large_rows_ = 0;
};

}  // namespace lodgekv::pmem
