// Fixed-size units over chunks of one use: nodes, logs, and one size class of records each. Which
// units are in use is known in DRAM only, so Allocate and Free cost no flush; after a crash the
// free units are what recovery does not reach (Mark), so nothing can leak.
//
// A unit that was freed may be handed out again at once: the caller frees it only when the store
// that unlinked it is durable and no reader can still look at it.
//
// Thread-safe but for the functions of recovery (Mark is thread-safe). Allocate and Free work on a
// small cache of the calling thread's worker slot; the arena's mutex is taken once for each refill
// of it. In a full pool an Allocate that fails costs a few loads (full_memo.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "index/pmem/pool.h"

namespace lodgekv::pmem {

class UnitCache;

class UnitArena final : public ChunkHolder {
 public:
  // `unit_bytes` is a multiple of 16 and at most a chunk. Nodes and logs: of 256 (or of 64).
  UnitArena(Pool& pool, ChunkUse use, uint32_t unit_bytes);
  ~UnitArena() override;

  // A unit with arbitrary content, aligned to the largest power of two that divides unit_bytes (at
  // most 256), or 0 when the medium is full.
  Offset Allocate(ReservePolicy policy);
  void Free(Offset unit);

  // When an allocation has failed, the next one fails too as long as this is the same: it changes
  // with the free units and the free chunks of a pool that was full once.
  uint64_t free_state() const;

  // From here on the arena never has fewer chunks than `chunks`; takes what is missing, as far as
  // the pool has it. May be called before FinishMark too.
  void KeepChunks(uint64_t chunks);

  uint32_t unit_bytes() const { return unit_bytes_; }
  uint64_t used_units() const;   // handed out and not freed (units in caches count as free)
  uint64_t total_units() const;  // in the arena's chunks

  bool GiveBackEmptyChunks() override;

  // --- recovery, in this order, before any Allocate ---
  // Takes over the chunks of this use and unit size; every unit counts as free.
  void Adopt(std::span<const Chunk> chunks);
  enum class MarkResult : uint8_t { kMarked, kTwice, kNotAUnit };
  // The unit at `unit` is in use. kTwice: it already was. kNotAUnit: no unit begins there.
  MarkResult Mark(Offset unit);
  // It is not, after all; thread-safe too.
  void Unmark(Offset unit);
  bool IsUnit(Offset unit) const;
  // Gives chunks without a marked unit back to the pool; the others serve Allocate.
  void FinishMark();
  // The arena's chunks by offset, and each unit of one, used or free. For logs, which are found by
  // looking.
  std::vector<Chunk> OwnChunks() const;
  template <class Visitor>
  void VisitUnits(const Chunk& chunk, Visitor visitor) const {
    for (uint32_t i = 0; i < chunk.bytes / unit_bytes_; ++i) {
      visitor(chunk.begin + uint64_t{i} * unit_bytes_);
    }
  }
  // Every `step`-th unit, used or free, by offset.
  std::vector<Offset> SampleUnits(uint64_t step) const;

 private:
  struct State;
  bool IsUnitOf(const Chunk& chunk, Offset unit) const;
  Offset AllocateSlowly(UnitCache& cache, ReservePolicy policy);
  Offset TryAllocate(ReservePolicy policy);
  void FreeToCache(Offset unit);
  // Under the arena's mutex:
  bool AddChunk(ReservePolicy policy);
  void Steal();  // takes all units out of the caches
  void GiveBack(Offset unit);
  void Release(uint32_t row);  // an empty chunk
  void ForgetLogs(const Chunk& chunk);
  Pool& pool_;
  const ChunkUse use_;
  const uint32_t unit_bytes_;
  std::unique_ptr<State> state_;
};

}  // namespace lodgekv::pmem
