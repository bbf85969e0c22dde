// Provides chunks and large objects: from libpmemobj's heap (pmemobj_source.h) or the fixed chunks
// of an arena (arena_source.h).
//
// All calls are made with the pool's chunk lock held.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "index/pmem/pool.h"

namespace lodgekv::pmem {

class ChunkTable;

class ChunkSource {
 public:
  struct Large {
    Offset offset = 0;
    uint64_t bytes = 0;  // usable
  };

  virtual ~ChunkSource() = default;

  // Checks the objects that the table's rows name and sets the rows' memory; lists the large
  // objects.
  virtual absl::Status Load(ChunkTable& table) = 0;

  // Allocates memory for `row`, which has none, and for the rows of the same object, in one
  // crash-atomic step. False: no memory is left.
  virtual bool AddMemory(ChunkTable& table, uint32_t row) = 0;
  // Frees the memory of the object of `row` if all its rows are free and `keep` free rows remain.
  virtual void RemoveMemory(ChunkTable& table, uint32_t row, uint64_t keep) = 0;

  // See Pool. ReserveLarge returns offset 0 if there is no room besides `rows_to_keep` free chunks.
  virtual Large ReserveLarge(ChunkTable& table, uint64_t bytes, uint64_t rows_to_keep) = 0;
  virtual void CommitLarge(ChunkTable& table, Offset offset) = 0;
  virtual void FreeLarge(ChunkTable& table, Offset offset) = 0;
  virtual std::vector<Large> LargeObjects() const = 0;
  // Bytes of the capacity used by large objects.
  virtual uint64_t large_bytes_taken() const = 0;
  virtual uint64_t capacity_bytes() const = 0;
};

}  // namespace lodgekv::pmem
