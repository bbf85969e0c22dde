// Chunks and large objects from the heap of a libpmemobj pool. An object's PMEMoid is in its row of
// the chunk table and is stored by libpmemobj's atomic allocation, so a crash leaks nothing.
#pragma once

#include <libpmemobj.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "index/pmem/internal/chunk_source.h"
#include "index/pmem/internal/journal_group.h"
#include "index/pmem/internal/pool_header.h"

namespace lodgekv::pmem {

class PmemobjSource : public ChunkSource {
 public:
  // Chunk size and table for a pool of this size. InvalidArgument if it is too small.
  static absl::StatusOr<PoolGeometry> Cut(uint64_t pool_bytes);
  // The size to request for the root object, which holds header and table.
  static uint64_t RootBytes(const PoolGeometry& geometry);
  static uint64_t MinPoolBytes();

  // The words of the chunk table that libpmemobj stores itself; its rows begin at `rows_begin`.
  static ForeignWords WordsOfLibpmemobj(Offset rows_begin, uint64_t rows);

  // `path`: of the pool, for messages.
  PmemobjSource(PMEMobjpool* pool, Medium& medium, const PoolGeometry& geometry, std::string path)
      : pool_(pool), medium_(medium), geometry_(geometry), path_(std::move(path)) {}

  absl::Status Load(ChunkTable& table) override;
  bool AddMemory(ChunkTable& table, uint32_t row) override;
  void RemoveMemory(ChunkTable& table, uint32_t row, uint64_t keep) override;
  Large ReserveLarge(ChunkTable& table, uint64_t bytes, uint64_t rows_to_keep) override;
  void CommitLarge(ChunkTable& table, Offset offset) override;
  void FreeLarge(ChunkTable& table, Offset offset) override;
  std::vector<Large> LargeObjects() const override;
  uint64_t large_bytes_taken() const override { return large_bytes_; }
  uint64_t capacity_bytes() const override;

 private:
  struct Object {
    PMEMoid oid{};
    uint64_t bytes = 0;  // usable, from the aligned begin
    bool published = false;
    pobj_action action{};  // of a reservation
  };

  // Lists the heap: chunk objects by offset with their usable bytes, large objects into large_.
  absl::Status ListHeap(std::map<uint64_t, uint64_t>& chunk_objects);
  void SetMemory(ChunkTable& table, uint32_t first_row, uint64_t object);
  void AddLarge(const Object& object);
  // Call before the space is returned to the heap. False: it must be kept.
  bool Revoke(Offset begin, uint64_t bytes);

  PMEMobjpool* const pool_;
  Medium& medium_;
  const PoolGeometry geometry_;
  const std::string path_;
  std::map<Offset, Object> large_;
  uint64_t large_bytes_ = 0;
};

}  // namespace lodgekv::pmem
