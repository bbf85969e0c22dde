// Fixed-size units in chunks of one use: nodes, logs, and each size class of records. Which units
// are in use is known in DRAM only, so Allocate and Free cost no flush; after a crash the free
// units are those that recovery does not reach (Mark), so nothing can leak.
//
// A freed unit may be allocated again at once: the caller frees it only when the store that
// unlinked it is durable and no reader can still access it.
//
// After a restart, from Adopt on, units are allocated and freed at once, while those in use are
// still being marked, chunk by chunk:
//
// Invariants
//  1. Until its chunk is finished no unit of an adopted chunk is allocated: Allocate uses chunks
//     that are finished, or that were acquired since.
//  2. Which units are used is decided when their chunk is finished, once: those that were marked or
//     held and not freed. So a unit that is freed before that is free then, whether it is marked
//     before, after or never; it can be allocated again from then on, and its mark needs no care.
//  3. A unit that is freed after its chunk was finished must have counted as used there. A thread
//     that unlinks units while there are unfinished chunks calls Hold for each before the store
//     that unlinks it (the marking may no longer reach it); then its Free may come at any time. The
//     same where a link moves to a place that the marking may have passed.
//  4. Freeing a unit twice ends the process, whatever is finished.
//
// An allocation that fails while anything of the pool is unfinished does not mean that the pool is
// full: see Pool::finding_space.
//
// Thread-safe, except for Adopt, which comes before any other use. Mark and Unmark take no lock,
// and may not be called for units of a chunk while that chunk is being finished: the caller of
// FinishMark knows that all marks in it are made. Allocate and Free work on a small cache of the
// calling thread's worker slot; the arena's mutex is taken once for each refill of it (and for each
// Free in an unfinished chunk). In a full pool an Allocate that fails costs a few loads
// (full_memo.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "index/pmem/pool.h"

namespace lodgekv::pmem {

class UnitCache;

// When the first line of each unit of a chunk becomes zero, durably, for units that recovery finds
// by scanning every unit of the arena's chunks.
enum class ZeroHeads : uint8_t {
  kNever,
  // Before the chunk table says that the chunk belongs to the arena: whatever it held, only what
  // was written since is found in it. For heads that arbitrary content may resemble (a free tag).
  kWhenTaken,
  // Before the table says that it no longer does. Sufficient for heads that only an old one
  // resembles (a checksum that begins with the pool's id), and paid only for chunks that are
  // returned: most never are, so loading a pool flushes no line for it.
  kWhenReleased,
};

class UnitArena final : public ChunkHolder {
 public:
  // `unit_bytes` is a multiple of 16 and at most a chunk. Nodes and logs: of 256 (or of 64).
  UnitArena(Pool& pool, ChunkUse use, uint32_t unit_bytes,
            ZeroHeads zero_heads = ZeroHeads::kNever);
  ~UnitArena() override;

  // A unit with arbitrary content (except with ZeroHeads::kWhenTaken), aligned to the largest power
  // of two that divides unit_bytes (at most 256), or 0 when the medium is full, or appears full
  // while chunks are unfinished.
  Offset Allocate(ReservePolicy policy);
  void Free(Offset unit);

  // When an allocation has failed, the next one fails too as long as this is unchanged: it changes
  // with the free units and the free chunks of a pool that was full once.
  uint64_t free_state() const;

  // From here on the arena never has fewer chunks than `chunks`; acquires what is missing, as far
  // as the pool has it. Unfinished chunks count.
  void KeepChunks(uint64_t chunks);

  // Flushes the first line of what was a unit, unless its chunk has been given back: false then. No
  // chunk is given back between the look and the flush: on an ordinary file the journal would have
  // a line of libpmemobj's, which a replay puts back to its content of then.
  bool FlushHead(Offset unit);

  uint32_t unit_bytes() const { return unit_bytes_; }
  // Allocated and not freed (units in caches count as free). In an unfinished chunk: all that were
  // not freed.
  uint64_t used_units() const;
  uint64_t total_units() const;  // in the arena's chunks

  bool GiveBackEmptyChunks() override;

  // --- recovery ---
  // Takes over the chunks of this use and unit size; they are unfinished. Once.
  void Adopt(std::span<const Chunk> chunks);
  enum class MarkResult : uint8_t { kMarked, kTwice, kNotAUnit, kFinished };
  // The unit at `unit` is in use. kTwice: it already was marked. kNotAUnit: no unit begins there.
  // kFinished: its chunk is not unfinished (it may have been acquired since), so nothing was
  // marked.
  MarkResult Mark(Offset unit);
  // Removes the mark.
  void Unmark(Offset unit);
  // The unit, which is in use, stays so until it is freed (invariant 3). Does nothing if its chunk
  // is finished.
  void Hold(Offset unit);
  bool IsUnit(Offset unit) const;
  // All units in use of this chunk are marked: its free units can be allocated, or the chunk is
  // returned to the pool if none is in use. Does nothing if it is finished.
  void FinishMark(const Chunk& chunk);
  void FinishMark();  // all of them
  std::vector<Chunk> UnfinishedChunks() const;
  // The arena's chunks by offset, and each unit of one, used or free. For logs, which are found by
  // scanning.
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
  uint32_t NumberIn(const Chunk& chunk, Offset unit) const {
    return static_cast<uint32_t>((unit - chunk.begin) / unit_bytes_);
  }
  Offset AllocateSlowly(UnitCache& cache, ReservePolicy policy);
  Offset TryAllocate(ReservePolicy policy);
  Offset TakeCached(UnitCache& cache) const;
  bool PutOff(Offset unit);
  void FreeToCache(Offset unit);
  // Under the arena's mutex:
  bool AddChunk(ReservePolicy policy);
  void Steal();  // takes all units out of the caches
  void GiveBack(Offset unit);
  void Release(uint32_t row);  // an empty chunk
  Pool& pool_;
  const ChunkUse use_;
  const uint32_t unit_bytes_;
  const ZeroHeads zero_heads_;
  std::unique_ptr<State> state_;
};

}  // namespace lodgekv::pmem
