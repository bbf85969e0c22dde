// The rows of the chunk table and what they say, with a copy in DRAM for readers.
//
// A row has memory or not, and a class (in use) or none (free); only a row with memory has a class.
// Free rows that have memory are used by the next Acquire; the last `reserve_rows` of them are kept
// for ReservePolicy::kUse.
//
// Find may be called at any time; everything else under the pool's chunk lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/pmem/internal/chunk_source.h"
#include "index/pmem/internal/pool_header.h"

namespace lodgekv::pmem {

class ChunkTable {
 public:
  ChunkTable(Medium& medium, const PoolHeader& header, uint64_t reserve_rows);

  // Decodes the rows' classes and lets the source find their memory.
  absl::Status Load(ChunkSource& source);

  struct Wanted {
    ChunkUse use;
    uint32_t unit_bytes;
    ReservePolicy policy;
  };
  // Calls prepare(chunk) before the row says that the chunk is in use.
  absl::StatusOr<Chunk> Acquire(ChunkSource& source, const Wanted& wanted,
                                absl::FunctionRef<void(const Chunk&)> prepare);
  void Release(uint32_t row);
  std::vector<Chunk> InUse() const;
  Chunk Find(Offset offset) const;
  Chunk ChunkOf(uint32_t row) const { return MakeChunk(row); }

  // --- for sources ---
  std::span<media::ChunkRow> rows() const { return rows_; }
  uint64_t chunk_cost() const { return chunk_cost_; }
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  Medium& medium() const { return medium_; }
  ChunkClass ClassOf(uint32_t row) const;
  // Stores the row's class, durable on return. Class 0 frees the row.
  void SetClass(uint32_t row, const ChunkClass& chunk_class);
  // The row now has memory that begins at `begin`.
  void SetMemory(uint32_t row, Offset begin);
  void ClearMemory(uint32_t row);
  bool HasMemory(uint32_t row) const { return Begin(row) != 0; }
  Offset Begin(uint32_t row) const { return state_[row].begin.load(std::memory_order_relaxed); }
  // Free rows with memory, lowest first.
  const std::set<uint32_t>& free_rows() const { return free_; }
  void TakeFree(uint32_t row) { free_.erase(row); }
  void AddFree(uint32_t row) { free_.insert(row); }

  // Returns the memory of free rows to the source, as long as `keep` of them remain.
  void Trim(ChunkSource& source, uint64_t keep);
  // Makes sure that `count` free rows have memory; false when the source has no more.
  bool Stock(ChunkSource& source, uint64_t count);
  uint64_t reserve_rows() const { return reserve_rows_; }
  uint64_t rows_in_use() const { return in_use_; }

 private:
  struct RowState {
    std::atomic<Offset> begin{0};         // 0: no memory
    std::atomic<uint64_t> class_bits{0};  // use | unit_bytes << 32
  };

  Chunk MakeChunk(uint32_t row) const;
  void Index(uint32_t row, Offset begin, bool add);

  Medium& medium_;
  const std::span<media::ChunkRow> rows_;
  const uint64_t chunk_bytes_;
  const uint64_t chunk_cost_;
  const uint64_t pool_bytes_;
  const unsigned shift_;
  const uint32_t crc_seed_;
  const uint64_t reserve_rows_;
  std::unique_ptr<RowState[]> state_;
  // For each range of 2^shift_ bytes, at most a chunk's, the one or two chunks that touch it: row +
  // 1, or 0, in each half.
  std::vector<std::atomic<uint64_t>> index_;
  std::set<uint32_t> free_;
  std::set<uint32_t> bare_;  // rows without memory
  uint64_t in_use_ = 0;
};

}  // namespace lodgekv::pmem
