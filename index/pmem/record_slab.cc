#include "index/pmem/record_slab.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <vector>

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

}  // namespace

struct RecordSlab::State {
  std::vector<uint32_t> sizes;
  std::vector<std::unique_ptr<UnitArena>> arenas;
  // By number of 16-byte steps: the class that serves it.
  std::vector<uint8_t> class_of;

  std::mutex mu;
  std::unordered_set<Offset> marked;  // large objects reached

  UnitArena* ArenaFor(uint64_t bytes) const { return arenas[class_of[(bytes + 15) / 16]].get(); }

  // The arena of a chunk's units, or null when no class has that size.
  UnitArena* ArenaOf(const Chunk& chunk) const {
    if (chunk.index == UINT32_MAX || chunk.use != ChunkUse::kRecords) return nullptr;
    if (chunk.unit_bytes / 16 >= class_of.size()) return nullptr;
    UnitArena* arena = ArenaFor(chunk.unit_bytes);
    return arena->unit_bytes() == chunk.unit_bytes ? arena : nullptr;
  }
};

RecordSlab::RecordSlab(Pool& pool)
    : pool_(pool),
      largest_class_(LargestClass(pool.chunk_bytes())),
      state_(std::make_unique<State>()) {
  state_->sizes = ClassSizes(largest_class_);
  for (const uint32_t size : state_->sizes) {
    state_->arenas.push_back(std::make_unique<UnitArena>(pool, ChunkUse::kRecords, size));
  }
  uint8_t index = 0;
  for (uint64_t bytes = 0; bytes <= largest_class_; bytes += 16) {
    if (bytes > state_->sizes[index]) ++index;
    state_->class_of.push_back(index);
  }
}

RecordSlab::~RecordSlab() = default;

Offset RecordSlab::Allocate(uint64_t bytes, Reserve reserve) {
  if (IsLarge(bytes)) return pool_.ReserveLarge(bytes, reserve);
  return state_->ArenaFor(bytes)->Allocate(reserve);
}

void RecordSlab::Publish(Offset record) {
  if (pool_.LargeBytes(record) != 0) pool_.PublishLarge(record);
}

void RecordSlab::Free(Offset record) {
  if (UnitArena* arena = state_->ArenaOf(pool_.FindChunk(record))) {
    arena->Free(record);
  } else {
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
  for (const auto& arena : state_->arenas) bytes += arena->used_units() * arena->unit_bytes();
  for (const Offset offset : pool_.LargeObjects()) bytes += pool_.LargeBytes(offset);
  return bytes;
}

void RecordSlab::Adopt() {
  const std::vector<Chunk> chunks = pool_.Chunks();
  for (const auto& arena : state_->arenas) arena->Adopt(chunks);
}

UnitArena::MarkResult RecordSlab::Mark(Offset record) {
  if (UnitArena* arena = state_->ArenaOf(pool_.FindChunk(record))) return arena->Mark(record);
  if (pool_.LargeBytes(record) == 0) return UnitArena::MarkResult::kNotAUnit;
  std::lock_guard lock(state_->mu);
  return state_->marked.insert(record).second ? UnitArena::MarkResult::kMarked
                                              : UnitArena::MarkResult::kTwice;
}

void RecordSlab::FinishMark() {
  for (const auto& arena : state_->arenas) arena->FinishMark();
  std::lock_guard lock(state_->mu);
  for (const Offset offset : pool_.LargeObjects()) {
    if (!state_->marked.contains(offset)) pool_.FreeLarge(offset);
  }
  state_->marked.clear();
}

}  // namespace lodgekv::pmem
