// Space for records: size classes from 32 bytes to 64 KiB (four to a doubling), each a UnitArena;
// larger records are the pool's large objects. Allocating and freeing flush nothing; freed space is
// found again by marking. Thread safety, reclamation, and the rules while marking is in progress
// are those of UnitArena, where a large object is like a chunk of one unit.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "index/pmem/pool.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv::pmem {

class RecordSlab {
 public:
  explicit RecordSlab(Pool& pool);
  ~RecordSlab();

  // Space of at least `bytes`, 16-byte aligned, with arbitrary content, or 0 when the medium is
  // full: then even the classes of up to four times the size have no unit left. A large object
  // (IsLarge) is only reserved: call Commit once its content is durable and before it is linked.
  Offset Allocate(uint64_t bytes, ReservePolicy policy);
  void Commit(Offset record);  // nothing for a slab record
  void Free(Offset record);

  bool IsLarge(uint64_t bytes) const { return bytes > largest_class_; }
  // Bytes of the space that begins at `record`, from the chunk table: 0 when none begins there.
  // Safe for any value of `record` (a reader may have a stale one).
  uint64_t SpaceAt(Offset record) const;

  uint64_t used_bytes() const;

  // --- recovery: as UnitArena ---
  void Adopt();
  UnitArena::MarkResult Mark(Offset record);
  void Hold(Offset record);
  std::vector<Chunk> UnfinishedChunks() const;
  void FinishMark(const Chunk& chunk);
  void FinishLarge();  // all large objects
  void FinishMark();   // all chunks and large objects

 private:
  struct State;
  Pool& pool_;
  uint64_t largest_class_ = 0;
  std::unique_ptr<State> state_;
};

}  // namespace lodgekv::pmem
