// What a UnitArena is made of; for the files that implement it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "index/pmem/full_memo.h"
#include "index/pmem/internal/brief_mutex.h"
#include "index/pmem/internal/chunk_units.h"
#include "index/pmem/internal/unit_cache.h"
#include "index/pmem/last_words.h"
#include "index/pmem/unit_arena.h"
#include "index/pmem/worker_slot.h"

namespace lodgekv::pmem {

struct UnitArena::State {
  static constexpr uint32_t kMaxRefill = UnitCache::kCapacity / 2;

  const bool process_barrier = ProcessBarrierAvailable();
  uint32_t refill = 1;
  uint32_t cache_units = 2;
  std::atomic<uint32_t> unfinished{0};  // chunks; read by every Free, changed by recovery

  std::array<std::atomic<UnitCache*>, kMaxWorkerSlots> caches{};
  // The number of units that came with chunks of the reserve: that many free units are only for
  // callers who may use it.
  std::atomic<uint64_t> kept_units{0};
  std::array<FullMemo, 2> full;         // by ReservePolicy
  std::atomic<uint32_t> free_units{0};  // change since the pool was first full

  mutable BriefMutex mu;
  std::vector<std::unique_ptr<ChunkUnits>> chunks;  // by row; null: the row is not the arena's
  std::set<uint32_t> with_free;                     // rows
  uint64_t total = 0;
  uint64_t free_in_chunks = 0;
  uint64_t chunk_count = 0;
  uint64_t empty_chunks = 0;
  uint64_t kept_chunks = 0;
  uint64_t put_off = 0;  // units freed in unfinished chunks
  // The unfinished chunks, by row; it keeps its size from Adopt on.
  std::vector<std::atomic<ChunkUnits*>> adopted;

  ~State() {
    ForEachCache([](UnitCache& cache) { delete &cache; });
  }

  UnitCache& OwnCache() {
    std::atomic<UnitCache*>& cache = caches[CurrentWorkerSlot()];
    UnitCache* own = cache.load(std::memory_order_acquire);
    if (own == nullptr) [[unlikely]] {
      own = new UnitCache;
      cache.store(own, std::memory_order_release);
    }
    return *own;
  }

  template <class Visitor>
  void ForEachCache(Visitor visitor) const {
    const uint32_t used = WorkerSlotsUsed();
    for (uint32_t slot = 0; slot < used; ++slot) {
      if (UnitCache* cache = caches[slot].load(std::memory_order_acquire)) visitor(*cache);
    }
  }

  uint64_t CachedUnits() const {
    uint64_t n = 0;
    ForEachCache([&](const UnitCache& cache) { n += cache.count(); });
    return n;
  }

  uint64_t FreeUnits() const { return free_in_chunks + CachedUnits(); }

  [[noreturn]] static void Die(const char* what, Offset unit, uint32_t unit_bytes) {
    LastWords words;
    words.Add("lodgekv unit arena of ");
    words.AddNumber(unit_bytes);
    words.Add(" bytes: ");
    words.Add(what);
    words.Add(" (offset ");
    words.AddNumber(unit);
    words.Add(")\n");
    words.Abort();
  }

  // Null: the chunk is finished, or not the arena's. Takes no lock.
  ChunkUnits* Unfinished(uint32_t row) const {
    return row < adopted.size() ? adopted[row].load(std::memory_order_acquire) : nullptr;
  }

  // The rest is called under `mu`.
  ChunkUnits* Own(uint32_t row) const { return row < chunks.size() ? chunks[row].get() : nullptr; }

  void Add(std::unique_ptr<ChunkUnits> chunk) {
    const uint32_t row = chunk->chunk.index;
    if (chunks.size() <= row) chunks.resize(row + 1);
    total += chunk->units;
    ++chunk_count;
    chunks[row] = std::move(chunk);
    AddFree(row);
  }

  // For a chunk whose units can be allocated from now on.
  void AddFree(uint32_t row) {
    const ChunkUnits& chunk = *chunks[row];
    free_in_chunks += chunk.free;
    if (chunk.free > 0) with_free.insert(row);
    if (chunk.IsEmpty()) ++empty_chunks;
  }

  void Remove(uint32_t row) {
    kept_units -= std::min<uint64_t>(kept_units, chunks[row]->units);
    total -= chunks[row]->units;
    free_in_chunks -= chunks[row]->free;
    --empty_chunks;
    --chunk_count;
    with_free.erase(row);
    chunks[row].reset();
  }

  // Moves up to `refill` free units into `cache`, so that they are popped in order of offset.
  void Refill(UnitCache& cache, uint32_t unit_bytes) {
    std::array<Offset, kMaxRefill> units;
    uint32_t n = 0;
    while (n < refill && !with_free.empty()) {
      ChunkUnits& from = *chunks[*with_free.begin()];
      if (from.IsEmpty()) --empty_chunks;
      while (n < refill && from.free > 0) {
        units[n++] = from.chunk.begin + uint64_t{from.Take()} * unit_bytes;
        --free_in_chunks;
      }
      if (from.free == 0) with_free.erase(from.chunk.index);
    }
    while (n > 0) cache.Push(units[--n], cache_units);
  }

  // Returns a unit to its chunk. True: the chunk has become empty and is not needed.
  bool GiveBack(uint32_t row, Offset unit, uint32_t unit_bytes) {
    ChunkUnits* own = Own(row);
    if (own == nullptr) Die("free of a unit of another arena", unit, unit_bytes);
    ChunkUnits& chunk = *own;
    const uint64_t distance = unit - chunk.chunk.begin;
    if (distance % unit_bytes != 0 || distance / unit_bytes >= chunk.units) {
      Die("free where no unit begins", unit, unit_bytes);
    }
    if (!chunk.Give(static_cast<uint32_t>(distance / unit_bytes))) {
      Die("free of a unit that is free", unit, unit_bytes);
    }
    ++free_in_chunks;
    if (chunk.free == 1) with_free.insert(row);
    if (!chunk.IsEmpty()) return false;
    ++empty_chunks;
    // One empty chunk is kept, so that a unit that is freed and allocated repeatedly does not move
    // a chunk each time.
    return empty_chunks > 1 && chunk_count > kept_chunks;
  }
};

}  // namespace lodgekv::pmem
