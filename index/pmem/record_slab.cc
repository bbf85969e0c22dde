#include "index/pmem/record_slab.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "index/pmem/last_words.h"

namespace lodgekv::pmem {
namespace {

constexpr uint64_t kSmallest = 32;
constexpr uint64_t kLargest = uint64_t{64} << 10;

// The sizes: four to a doubling, as far as they are multiples of 16: 32, 48, 64, 80, 96, 112, 128,
// 160, ...
std::vector<uint32_t> ClassSizes(uint64_t largest) {
  std::vector<uint32_t> sizes;
  for (uint64_t base = kSmallest; base <= largest; base *= 2) {
    const uint64_t step = std::max<uint64_t>(16, base / 4);
    for (uint64_t size = base; size < 2 * base && size <= largest; size += step) {
      sizes.push_back(static_cast<uint32_t>(size));
    }
  }
  return sizes;
}

// A chunk holds at least two units of each class.
uint64_t LargestClass(uint64_t chunk_bytes) {
  return ClassSizes(std::clamp(chunk_bytes / 2, kSmallest, kLargest)).back();
}

[[noreturn]] void DieOfSecondFree(Offset record) {
  LastWords words;
  words.Add("lodgekv record slab: free of a large object that is free (offset ");
  words.AddNumber(record);
  words.Add(")\n");
  words.Abort();
}

}  // namespace

struct RecordSlab::State {
  Pool& pool;
  const std::vector<uint32_t> sizes;
  // By number of 16-byte steps: the index of the size class used.
  std::vector<uint8_t> class_of;
  // By class; most pools need few. Null: no record of the class yet.
  std::vector<std::atomic<UnitArena*>> arenas;

  // A large object that was there when the slab was adopted, and is not finished.
  struct AdoptedLarge {
    bool marked = false;
    bool held = false;
    bool freed = false;
  };
  mutable std::mutex mu;  // new arenas, `adopted`
  std::map<Offset, AdoptedLarge> adopted;

  State(Pool& of_pool, uint64_t largest)
      : pool(of_pool), sizes(ClassSizes(largest)), arenas(sizes.size()) {
    uint8_t index = 0;
    for (uint64_t bytes = 0; bytes <= largest; bytes += 16) {
      if (bytes > sizes[index]) ++index;
      class_of.push_back(index);
    }
  }

  ~State() {
    ForEachArena([](UnitArena& arena) { delete &arena; });
  }

  template <class Visitor>
  void ForEachArena(Visitor visitor) const {
    for (const auto& slot : arenas) {
      if (UnitArena* arena = slot.load(std::memory_order_acquire)) visitor(*arena);
    }
  }

  UnitArena& ArenaFor(uint64_t bytes) {
    const uint8_t index = class_of[(bytes + 15) / 16];
    UnitArena* arena = arenas[index].load(std::memory_order_acquire);
    return arena != nullptr ? *arena : NewArena(index);
  }

  UnitArena& NewArena(uint8_t index) {
    std::lock_guard lock(mu);
    UnitArena* arena = arenas[index].load(std::memory_order_relaxed);
    if (arena != nullptr) return *arena;
    arena = new UnitArena(pool, ChunkUse::kRecords, sizes[index]);
    arenas[index].store(arena, std::memory_order_release);
    return *arena;
  }

  // Allocates from the larger classes: in a full pool, free units of another class are often the
  // only space left.
  Offset AllocateLarger(uint64_t bytes, ReservePolicy policy) const {
    constexpr uint64_t kMostWaste = 4;
    for (size_t index = class_of[(bytes + 15) / 16] + size_t{1};
         index < sizes.size() && sizes[index] <= kMostWaste * bytes; ++index) {
      UnitArena* arena = arenas[index].load(std::memory_order_acquire);
      const Offset record = arena != nullptr ? arena->Allocate(policy) : 0;
      if (record != 0) return record;
    }
    return 0;
  }

  // Whether it is a chunk of a class's units.
  bool IsClass(const Chunk& chunk) const {
    return chunk.index != UINT32_MAX && chunk.use == ChunkUse::kRecords &&
           chunk.unit_bytes / 16 < class_of.size() &&
           sizes[class_of[(chunk.unit_bytes + 15) / 16]] == chunk.unit_bytes;
  }

  // Null: it is finished, or was allocated since. Called under `mu`.
  AdoptedLarge* Unfinished(Offset record) {
    const auto found = adopted.find(record);
    return found == adopted.end() ? nullptr : &found->second;
  }

  // False: it is not unfinished.
  bool PutOffLarge(Offset record) {
    std::lock_guard lock(mu);
    AdoptedLarge* large = Unfinished(record);
    if (large == nullptr) return false;
    if (std::exchange(large->freed, true)) DieOfSecondFree(record);
    return true;
  }

  // The arena of a chunk's units, or null when no class has that size.
  UnitArena* ArenaOf(const Chunk& chunk) {
    return IsClass(chunk) ? &ArenaFor(chunk.unit_bytes) : nullptr;
  }
};

RecordSlab::RecordSlab(Pool& pool)
    : pool_(pool),
      largest_class_(LargestClass(pool.chunk_bytes())),
      state_(std::make_unique<State>(pool, largest_class_)) {}

RecordSlab::~RecordSlab() { pool_.NoteUnfinished(-static_cast<int64_t>(state_->adopted.size())); }

Offset RecordSlab::Allocate(uint64_t bytes, ReservePolicy policy) {
  if (IsLarge(bytes)) return pool_.ReserveLarge(bytes, policy);
  const Offset record = state_->ArenaFor(bytes).Allocate(policy);
  return record != 0 ? record : state_->AllocateLarger(bytes, policy);
}

void RecordSlab::Commit(Offset record) {
  if (pool_.LargeBytes(record) != 0) pool_.CommitLarge(record);
}

void RecordSlab::Free(Offset record) {
  if (UnitArena* arena = state_->ArenaOf(pool_.FindChunk(record))) {
    arena->Free(record);
  } else if (!pool_.finding_space() || !state_->PutOffLarge(record)) {
    pool_.FreeLarge(record);
  }
}

uint64_t RecordSlab::SpaceAt(Offset record) const {
  const Chunk chunk = pool_.FindChunk(record);
  if (chunk.index == UINT32_MAX) return pool_.LargeBytes(record);
  if (chunk.use != ChunkUse::kRecords || chunk.unit_bytes == 0) return 0;
  const uint64_t distance = record - chunk.begin;
  const bool is_unit =
      distance % chunk.unit_bytes == 0 && distance + chunk.unit_bytes <= chunk.bytes;
  return is_unit ? chunk.unit_bytes : 0;
}

uint64_t RecordSlab::used_bytes() const {
  uint64_t bytes = 0;
  state_->ForEachArena(
      [&](const UnitArena& arena) { bytes += arena.used_units() * arena.unit_bytes(); });
  for (const Offset offset : pool_.LargeObjects()) bytes += pool_.LargeBytes(offset);
  std::lock_guard lock(state_->mu);
  for (const auto& [offset, large] : state_->adopted) {
    if (large.freed) bytes -= pool_.LargeBytes(offset);
  }
  return bytes;
}

void RecordSlab::Adopt() {
  const std::vector<Chunk> chunks = pool_.Chunks();
  for (const Chunk& chunk : chunks) (void)state_->ArenaOf(chunk);
  state_->ForEachArena([&](UnitArena& arena) { arena.Adopt(chunks); });
  std::lock_guard lock(state_->mu);
  for (const Offset offset : pool_.LargeObjects()) state_->adopted[offset] = {};
  pool_.NoteUnfinished(static_cast<int64_t>(state_->adopted.size()));
}

UnitArena::MarkResult RecordSlab::Mark(Offset record) {
  using MarkResult = UnitArena::MarkResult;
  if (UnitArena* arena = state_->ArenaOf(pool_.FindChunk(record))) return arena->Mark(record);
  if (pool_.LargeBytes(record) == 0) return MarkResult::kNotAUnit;
  std::lock_guard lock(state_->mu);
  State::AdoptedLarge* large = state_->Unfinished(record);
  if (large == nullptr) return MarkResult::kFinished;
  return std::exchange(large->marked, true) ? MarkResult::kTwice : MarkResult::kMarked;
}

void RecordSlab::Hold(Offset record) {
  if (!pool_.finding_space()) return;
  if (UnitArena* arena = state_->ArenaOf(pool_.FindChunk(record))) return arena->Hold(record);
  std::lock_guard lock(state_->mu);
  if (State::AdoptedLarge* large = state_->Unfinished(record)) large->held = true;
}

std::vector<Chunk> RecordSlab::UnfinishedChunks() const {
  std::vector<Chunk> chunks;
  state_->ForEachArena([&](const UnitArena& arena) {
    const std::vector<Chunk> some = arena.UnfinishedChunks();
    chunks.insert(chunks.end(), some.begin(), some.end());
  });
  return chunks;
}

void RecordSlab::FinishMark(const Chunk& chunk) {
  if (UnitArena* arena = state_->ArenaOf(chunk)) arena->FinishMark(chunk);
}

// One at a time, without the mutex: freeing one waits for the medium, and no other thread should
// wait for that.
void RecordSlab::FinishLarge() {
  std::unique_lock lock(state_->mu);
  while (!state_->adopted.empty()) {
    const auto [offset, large] = *state_->adopted.begin();
    state_->adopted.erase(state_->adopted.begin());
    lock.unlock();
    if (large.freed || !(large.marked || large.held)) pool_.FreeLarge(offset);
    pool_.NoteUnfinished(-1);
    lock.lock();
  }
}

void RecordSlab::FinishMark() {
  state_->ForEachArena([](UnitArena& arena) { arena.FinishMark(); });
  FinishLarge();
}

}  // namespace lodgekv::pmem
