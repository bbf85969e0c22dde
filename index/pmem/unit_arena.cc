#include "index/pmem/unit_arena.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <set>
#include <vector>

#include "index/pmem/crash_point.h"
#include "index/pmem/full_memo.h"
#include "index/pmem/internal/unit_cache.h"
#include "index/pmem/last_words.h"
#include "index/pmem/worker_slot.h"

namespace lodgekv::pmem {
namespace {

constexpr uint32_t kMaxRefill = UnitCache::kCapacity / 2;
constexpr uint32_t kWordBits = 64;

[[noreturn]] void Die(const char* what, Offset unit, uint32_t unit_bytes) {
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

// A chunk of the arena; a set bit is a unit that is used, or free in some cache.
struct ChunkUnits {
  Chunk chunk;
  uint32_t units = 0;
  uint32_t free = 0;
  uint32_t first_word = 0;  // no unit of an earlier word is free
  std::vector<uint64_t> bits;

  ChunkUnits(const Chunk& c, uint32_t unit_bytes)
      : chunk(c),
        units(static_cast<uint32_t>(c.bytes / unit_bytes)),
        free(units),
        bits((units + kWordBits - 1) / kWordBits) {
    // Units past the end look used.
    if (units % kWordBits != 0) bits.back() = ~uint64_t{0} << units % kWordBits;
  }

  bool IsEmpty() const { return free == units; }

  uint32_t Take() {
    while (bits[first_word] == ~uint64_t{0}) ++first_word;
    const auto bit = static_cast<uint32_t>(std::countr_one(bits[first_word]));
    bits[first_word] |= uint64_t{1} << bit;
    --free;
    return first_word * kWordBits + bit;
  }

  bool Give(uint32_t unit) {
    const uint64_t mask = uint64_t{1} << unit % kWordBits;
    if ((bits[unit / kWordBits] & mask) == 0) return false;
    bits[unit / kWordBits] &= ~mask;
    first_word = std::min(first_word, unit / kWordBits);
    ++free;
    return true;
  }
};

}  // namespace

struct UnitArena::State {
  const bool process_barrier = ProcessBarrierAvailable();
  uint32_t refill = 1;
  uint32_t cache_units = 2;

  std::array<std::atomic<UnitCache*>, kMaxWorkerSlots> caches{};
  // As many as came with chunks of the reserve: so many free units are for who may use it.
  std::atomic<uint64_t> kept_units{0};
  std::array<FullMemo, 2> full;         // by ReservePolicy
  std::atomic<uint32_t> free_units{0};  // more than when the pool was full first

  mutable std::mutex mu;
  std::vector<std::unique_ptr<ChunkUnits>> chunks;  // by row; null where the row is not the arena's
  std::set<uint32_t> with_free;                     // rows
  uint64_t total = 0;
  uint64_t free_in_chunks = 0;
  uint64_t chunk_count = 0;
  uint64_t empty_chunks = 0;
  uint64_t kept_chunks = 0;

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

  ChunkUnits* Own(uint32_t row) const { return row < chunks.size() ? chunks[row].get() : nullptr; }

  // The rest under `mu`.
  void Add(const Chunk& chunk, uint32_t unit_bytes) {
    if (chunks.size() <= chunk.index) chunks.resize(chunk.index + 1);
    chunks[chunk.index] = std::make_unique<ChunkUnits>(chunk, unit_bytes);
    const uint32_t units = chunks[chunk.index]->units;
    total += units;
    free_in_chunks += units;
    ++empty_chunks;
    ++chunk_count;
    with_free.insert(chunk.index);
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

  // Gives a unit back to its chunk; with true the chunk has become empty and is not needed.
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
    // One empty chunk stays, lest a unit that comes and goes move a chunk each time.
    return empty_chunks > 1 && chunk_count > kept_chunks;
  }
};

UnitArena::UnitArena(Pool& pool, ChunkUse use, uint32_t unit_bytes)
    : pool_(pool), use_(use), unit_bytes_(unit_bytes), state_(std::make_unique<State>()) {
  if (unit_bytes == 0 || unit_bytes % 16 != 0 || unit_bytes > pool.chunk_bytes()) {
    Die("units must be a multiple of 16 bytes and fit a chunk", pool.chunk_bytes(), unit_bytes);
  }
  // A cache holds no large share of a chunk.
  const uint64_t units = pool.chunk_bytes() / unit_bytes;
  state_->refill = static_cast<uint32_t>(std::clamp<uint64_t>(units / 8, 1, kMaxRefill));
  state_->cache_units = 2 * state_->refill;
  pool.AddHolder(this);
}

UnitArena::~UnitArena() { pool_.RemoveHolder(this); }

Offset UnitArena::Allocate(ReservePolicy policy) {
  const Offset unit = TryAllocate(policy);
  if (unit != 0 && pool_.was_full()) state_->free_units.fetch_sub(1, std::memory_order_relaxed);
  return unit;
}

Offset UnitArena::TryAllocate(ReservePolicy policy) {
  UnitCache& cache = state_->OwnCache();
  const bool kept =
      policy == ReservePolicy::kKeep && state_->kept_units.load(std::memory_order_relaxed);
  if (!kept && cache.TryEnter(state_->process_barrier)) {
    const Offset unit = cache.Pop();
    cache.Leave();
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
  // What was taken from the reserve does not serve who may not.
  const bool kept = policy == ReservePolicy::kKeep && s.kept_units != 0;
  if (kept && s.FreeUnits() <= s.kept_units && !AddChunk(policy)) return 0;
  if (cache.count() == 0 && s.free_in_chunks == 0 && !AddChunk(policy)) Steal();
  if (cache.count() == 0) s.Refill(cache, unit_bytes_);
  return cache.Pop();
}

void UnitArena::Free(Offset unit) {
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
  absl::StatusOr<Chunk> chunk = pool_.AcquireChunk(use_, unit_bytes_, ReservePolicy::kKeep);
  if (chunk.ok()) {
    state_->kept_units = 0;  // the reserve is whole
  } else if (policy == ReservePolicy::kUse) {
    chunk = pool_.AcquireChunk(use_, unit_bytes_, policy);
    if (chunk.ok()) state_->kept_units += chunk->bytes / unit_bytes_;
  }
  if (!chunk.ok()) return false;
  state_->Add(*chunk, unit_bytes_);
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

// The chunk may serve another use and come back as one of logs, its old ones half overwritten: they
// must not be found then.
void UnitArena::ForgetLogs(const Chunk& chunk) {
  Medium& medium = pool_.medium();
  for (uint32_t i = 0; i < chunk.bytes / unit_bytes_; ++i) {
    char* head = pool_.At<char>(chunk.begin + uint64_t{i} * unit_bytes_);
    medium.StoreZeros(head, kLineBytes);
    medium.FlushLine(head);
  }
  LODGEKV_CRASH_POINT(medium, "pmem.release_logs.1");
  medium.Fence();
}

void UnitArena::Release(uint32_t row) {
  if (use_ == ChunkUse::kLogs) ForgetLogs(state_->Own(row)->chunk);
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
  const uint64_t free = state_->FreeUnits();
  return state_->total - std::min(state_->total, free);
}

uint64_t UnitArena::total_units() const {
  std::lock_guard lock(state_->mu);
  return state_->total;
}

void UnitArena::Adopt(std::span<const Chunk> chunks) {
  std::lock_guard lock(state_->mu);
  for (const Chunk& chunk : chunks) {
    if (chunk.use == use_ && chunk.unit_bytes == unit_bytes_) state_->Add(chunk, unit_bytes_);
  }
}

bool UnitArena::IsUnit(Offset unit) const { return IsUnitOf(pool_.FindChunk(unit), unit); }

bool UnitArena::IsUnitOf(const Chunk& chunk, Offset unit) const {
  if (chunk.index == UINT32_MAX || chunk.use != use_ || chunk.unit_bytes != unit_bytes_) {
    return false;
  }
  const uint64_t distance = unit - chunk.begin;
  return distance % unit_bytes_ == 0 && distance + unit_bytes_ <= chunk.bytes;
}

UnitArena::MarkResult UnitArena::Mark(Offset unit) {
  const Chunk chunk = pool_.FindChunk(unit);
  // No lock: chunks come and go only before and after marking.
  ChunkUnits* units = IsUnitOf(chunk, unit) ? state_->Own(chunk.index) : nullptr;
  if (units == nullptr) return MarkResult::kNotAUnit;
  const uint64_t i = (unit - chunk.begin) / unit_bytes_;
  const uint64_t mask = uint64_t{1} << i % kWordBits;
  const std::atomic_ref<uint64_t> word(units->bits[i / kWordBits]);
  const uint64_t before = word.fetch_or(mask, std::memory_order_relaxed);
  return (before & mask) != 0 ? MarkResult::kTwice : MarkResult::kMarked;
}

void UnitArena::Unmark(Offset unit) {
  const Chunk chunk = pool_.FindChunk(unit);
  const uint64_t i = (unit - chunk.begin) / unit_bytes_;
  const std::atomic_ref<uint64_t> word(state_->Own(chunk.index)->bits[i / kWordBits]);
  word.fetch_and(~(uint64_t{1} << i % kWordBits), std::memory_order_relaxed);
}

void UnitArena::FinishMark() {
  State& s = *state_;
  std::lock_guard lock(s.mu);
  for (uint32_t row = 0; row < s.chunks.size(); ++row) {
    ChunkUnits* chunk = s.Own(row);
    if (chunk == nullptr) continue;
    uint32_t used = 0;
    for (const uint64_t word : chunk->bits) used += static_cast<uint32_t>(std::popcount(word));
    // Units past the end look used.
    used -= static_cast<uint32_t>(chunk->bits.size()) * kWordBits - chunk->units;
    if (used == 0) {
      if (s.chunk_count > s.kept_chunks) Release(row);
      continue;
    }
    chunk->free = chunk->units - used;
    s.free_in_chunks -= used;
    --s.empty_chunks;
    if (chunk->free == 0) s.with_free.erase(row);
  }
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
