#include "index/pmem/unit_arena.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "index/pmem/internal/unit_arena_state.h"
#include "index/pmem/internal/zero_heads.h"

namespace lodgekv::pmem {

UnitArena::UnitArena(Pool& pool, ChunkUse use, uint32_t unit_bytes, ZeroHeads zero_heads)
    : pool_(pool),
      use_(use),
      unit_bytes_(unit_bytes),
      zero_heads_(zero_heads),
      state_(std::make_unique<State>()) {
  if (unit_bytes == 0 || unit_bytes % 16 != 0 || unit_bytes > pool.chunk_bytes()) {
    State::Die("units must be a multiple of 16 bytes and fit a chunk", pool.chunk_bytes(),
               unit_bytes);
  }
  // A cache holds only a small share of a chunk.
  const uint64_t units = pool.chunk_bytes() / unit_bytes;
  state_->refill = static_cast<uint32_t>(std::clamp<uint64_t>(units / 8, 1, State::kMaxRefill));
  state_->cache_units = 2 * state_->refill;
  pool.AddHolder(this);
}

UnitArena::~UnitArena() {
  pool_.RemoveHolder(this);
  pool_.NoteUnfinished(-int64_t{state_->unfinished.load(std::memory_order_relaxed)});
}

Offset UnitArena::Allocate(ReservePolicy policy) {
  const Offset unit = TryAllocate(policy);
  if (unit != 0 && pool_.was_full()) state_->free_units.fetch_sub(1, std::memory_order_relaxed);
  return unit;
}

// 0: the cache is empty, or a thief has it. A unit is written as soon as it is taken, and no line
// of it is in the cache: so those of the next one are fetched already.
Offset UnitArena::TakeCached(UnitCache& cache) const {
  constexpr uint32_t kFetchedBytes = 256;
  if (!cache.TryEnter(state_->process_barrier)) return 0;
  const Offset unit = cache.Pop();
  const Offset next = cache.Next();
  cache.Leave();
  if (next != 0) {
    const char* at = pool_.At<char>(next);
    for (uint32_t line = 0; line < std::min(unit_bytes_, kFetchedBytes); line += kLineBytes) {
      __builtin_prefetch(at + line, 1);
    }
  }
  return unit;
}

Offset UnitArena::TryAllocate(ReservePolicy policy) {
  UnitCache& cache = state_->OwnCache();
  const bool kept =
      policy == ReservePolicy::kKeep && state_->kept_units.load(std::memory_order_relaxed);
  if (!kept) {
    const Offset unit = TakeCached(cache);
    if (unit != 0) return unit;
  }
  FullMemo& full = state_->full[static_cast<size_t>(policy)];
  if (full.Holds(free_state())) return 0;
  Offset unit = AllocateSlowly(cache, policy);
  if (unit != 0) return unit;
  pool_.NoteFull();
  const uint64_t before = free_state();
  (void)pool_.CollectEmptyChunks();
  unit = AllocateSlowly(cache, policy);
  if (unit == 0) full.Note(before);
  return unit;
}

uint64_t UnitArena::free_state() const {
  return pool_.came_free() << 32 | state_->free_units.load(std::memory_order_relaxed);
}

Offset UnitArena::AllocateSlowly(UnitCache& cache, ReservePolicy policy) {
  State& s = *state_;
  std::lock_guard lock(s.mu);
  // Units that came from the reserve are not for callers who may not use it.
  const bool kept = policy == ReservePolicy::kKeep && s.kept_units != 0;
  if (kept && s.FreeUnits() <= s.kept_units && !AddChunk(policy)) return 0;
  if (cache.count() == 0 && s.free_in_chunks == 0 && !AddChunk(policy)) Steal();
  if (cache.count() == 0) s.Refill(cache, unit_bytes_);
  return cache.Pop();
}

void UnitArena::Free(Offset unit) {
  const bool marking = state_->unfinished.load(std::memory_order_relaxed) != 0;
  if (marking && PutOff(unit)) [[unlikely]]
    return;
  FreeToCache(unit);
  if (pool_.was_full()) state_->free_units.fetch_add(1, std::memory_order_relaxed);
}

void UnitArena::FreeToCache(Offset unit) {
  UnitCache& cache = state_->OwnCache();
  if (cache.TryEnter(state_->process_barrier)) {
    const bool done = cache.Push(unit, state_->cache_units);
    cache.Leave();
    if (done) return;
  }
  std::lock_guard lock(state_->mu);
  if (cache.Push(unit, state_->cache_units)) return;
  for (uint32_t i = 0; i < state_->refill; ++i) GiveBack(cache.Pop());
  cache.Push(unit, state_->cache_units);
}

void UnitArena::KeepChunks(uint64_t chunks) {
  State& s = *state_;
  std::lock_guard lock(s.mu);
  s.kept_chunks = chunks;
  while (s.chunk_count < chunks && AddChunk(ReservePolicy::kUse)) {
  }
}

bool UnitArena::AddChunk(ReservePolicy policy) {
  const bool zero = zero_heads_ == ZeroHeads::kWhenTaken;
  absl::StatusOr<Chunk> chunk = pool_.AcquireChunk(use_, unit_bytes_, ReservePolicy::kKeep, zero);
  if (chunk.ok()) {
    state_->kept_units = 0;  // the reserve is whole
  } else if (policy == ReservePolicy::kUse) {
    chunk = pool_.AcquireChunk(use_, unit_bytes_, policy, zero);
    if (chunk.ok()) state_->kept_units += chunk->bytes / unit_bytes_;
  }
  if (!chunk.ok()) return false;
  state_->Add(std::make_unique<ChunkUnits>(*chunk, unit_bytes_, true));
  return true;
}

void UnitArena::Steal() {
  std::vector<UnitCache*> victims;
  state_->ForEachCache([&](UnitCache& cache) {
    if (cache.count() == 0) return;
    cache.Want();
    victims.push_back(&cache);
  });
  if (victims.empty()) return;
  ProcessBarrier();
  for (UnitCache* cache : victims) {
    cache->Await();
    while (const Offset unit = cache->Pop()) GiveBack(unit);
    cache->Return();
  }
}

bool UnitArena::GiveBackEmptyChunks() {
  State& s = *state_;
  std::lock_guard lock(s.mu);
  const uint64_t units = pool_.chunk_bytes() / unit_bytes_;
  if (s.chunk_count <= s.kept_chunks || s.FreeUnits() < units) return false;
  const uint64_t before = s.chunk_count;
  Steal();
  for (uint32_t row = 0; row < s.chunks.size() && s.chunk_count > s.kept_chunks; ++row) {
    const ChunkUnits* chunk = s.Own(row);
    if (chunk != nullptr && chunk->IsEmpty()) Release(row);
  }
  return s.chunk_count < before;
}

bool UnitArena::FlushHead(Offset unit) {
  const std::lock_guard lock(state_->mu);
  if (!IsUnit(unit)) return false;
  pool_.medium().FlushLine(pool_.At<char>(unit));
  return true;
}

void UnitArena::Release(uint32_t row) {
  if (zero_heads_ == ZeroHeads::kWhenReleased) {
    const Chunk& chunk = state_->Own(row)->chunk;
    ZeroUnitHeads(pool_.medium(), pool_.At<char>(chunk.begin), chunk);
  }
  state_->Remove(row);
  pool_.ReleaseChunk(row);
}

void UnitArena::GiveBack(Offset unit) {
  const uint32_t row = pool_.FindChunk(unit).index;
  if (state_->GiveBack(row, unit, unit_bytes_)) {
    Release(row);
  } else if (state_->chunks[row]->IsEmpty()) {
    pool_.NoteCameFree();
  }
}

uint64_t UnitArena::used_units() const {
  std::lock_guard lock(state_->mu);
  const uint64_t free = state_->FreeUnits() + state_->put_off;
  return state_->total - std::min(state_->total, free);
}

uint64_t UnitArena::total_units() const {
  std::lock_guard lock(state_->mu);
  return state_->total;
}

bool UnitArena::IsUnit(Offset unit) const { return IsUnitOf(pool_.FindChunk(unit), unit); }

bool UnitArena::IsUnitOf(const Chunk& chunk, Offset unit) const {
  if (chunk.index == UINT32_MAX || chunk.use != use_ || chunk.unit_bytes != unit_bytes_) {
    return false;
  }
  const uint64_t distance = unit - chunk.begin;
  return distance % unit_bytes_ == 0 && distance + unit_bytes_ <= chunk.bytes;
}

std::vector<Chunk> UnitArena::OwnChunks() const {
  std::vector<Chunk> chunks;
  {
    std::lock_guard lock(state_->mu);
    for (const auto& units : state_->chunks) {
      if (units != nullptr) chunks.push_back(units->chunk);
    }
  }
  std::sort(chunks.begin(), chunks.end(),
            [](const Chunk& a, const Chunk& b) { return a.begin < b.begin; });
  return chunks;
}

std::vector<Offset> UnitArena::SampleUnits(uint64_t step) const {
  std::vector<Offset> sample;
  uint64_t next = step / 2;  // in the chunk
  for (const Chunk& chunk : OwnChunks()) {
    const uint64_t units = chunk.bytes / unit_bytes_;
    for (; next < units; next += step) sample.push_back(chunk.begin + next * unit_bytes_);
    next -= units;
  }
  return sample;
}

}  // namespace lodgekv::pmem
