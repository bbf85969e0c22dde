// How an arena finds which units of adopted chunks are used, while others are allocated and freed.
#include <memory>
#include <mutex>

#include "index/pmem/internal/unit_arena_state.h"
#include "index/pmem/unit_arena.h"

namespace lodgekv::pmem {

void UnitArena::Adopt(std::span<const Chunk> chunks) {
  State& s = *state_;
  std::lock_guard lock(s.mu);
  if (!s.adopted.empty()) State::Die("chunks are adopted twice", 0, unit_bytes_);
  std::vector<uint32_t> rows;
  for (const Chunk& chunk : chunks) {
    if (chunk.use != use_ || chunk.unit_bytes != unit_bytes_) continue;
    s.Add(std::make_unique<ChunkUnits>(chunk, unit_bytes_, /*finished=*/false));
    rows.push_back(chunk.index);
  }
  s.adopted = std::vector<std::atomic<ChunkUnits*>>(s.chunks.size());
  for (const uint32_t row : rows) s.adopted[row].store(s.Own(row), std::memory_order_release);
  s.unfinished.store(static_cast<uint32_t>(rows.size()), std::memory_order_relaxed);
  pool_.NoteUnfinished(static_cast<int64_t>(rows.size()));
}

UnitArena::MarkResult UnitArena::Mark(Offset unit) {
  const Chunk chunk = pool_.FindChunk(unit);
  if (!IsUnitOf(chunk, unit)) return MarkResult::kNotAUnit;
  ChunkUnits* units = state_->Unfinished(chunk.index);
  if (units == nullptr) return MarkResult::kFinished;
  return units->Mark(NumberIn(chunk, unit)) ? MarkResult::kMarked : MarkResult::kTwice;
}

void UnitArena::Unmark(Offset unit) {
  const Chunk chunk = pool_.FindChunk(unit);
  ChunkUnits* units = state_->Unfinished(chunk.index);
  if (units != nullptr) units->Unmark(NumberIn(chunk, unit));
}

void UnitArena::Hold(Offset unit) {
  const Chunk chunk = pool_.FindChunk(unit);
  if (state_->Unfinished(chunk.index) == nullptr) return;
  std::lock_guard lock(state_->mu);
  ChunkUnits* units = state_->Unfinished(chunk.index);
  if (units != nullptr) units->Hold(NumberIn(chunk, unit));
}

// False: its chunk is finished.
bool UnitArena::PutOff(Offset unit) {
  const Chunk chunk = pool_.FindChunk(unit);
  if (state_->Unfinished(chunk.index) == nullptr) return false;
  std::lock_guard lock(state_->mu);
  ChunkUnits* units = state_->Unfinished(chunk.index);
  if (units == nullptr) return false;
  if (!IsUnitOf(chunk, unit)) State::Die("free where no unit begins", unit, unit_bytes_);
  if (!units->PutOff(NumberIn(chunk, unit))) {
    State::Die("free of a unit that is free", unit, unit_bytes_);
  }
  ++state_->put_off;
  return true;
}

void UnitArena::FinishMark() {
  for (const Chunk& chunk : UnfinishedChunks()) FinishMark(chunk);
}

// The pool is notified last: a thread that then finds it full has seen what became free here.
void UnitArena::FinishMark(const Chunk& chunk) {
  State& s = *state_;
  std::lock_guard lock(s.mu);
  ChunkUnits* units = s.Unfinished(chunk.index);
  if (units == nullptr) return;
  s.put_off -= units->Finish();
  const uint32_t free = units->free;
  s.adopted[chunk.index].store(nullptr, std::memory_order_release);
  s.unfinished.fetch_sub(1, std::memory_order_relaxed);
  s.AddFree(chunk.index);
  if (units->IsEmpty()) {
    if (s.chunk_count > s.kept_chunks) {
      Release(chunk.index);
    } else {
      pool_.NoteCameFree();
    }
  }
  // Whether or not the pool was ever full: an allocation that has failed is tried again.
  s.free_units.fetch_add(free, std::memory_order_relaxed);
  pool_.NoteUnfinished(-1);
}

std::vector<Chunk> UnitArena::UnfinishedChunks() const {
  std::vector<Chunk> chunks;
  std::lock_guard lock(state_->mu);
  for (uint32_t row = 0; row < state_->adopted.size(); ++row) {
    const ChunkUnits* units = state_->Unfinished(row);
    if (units != nullptr) chunks.push_back(units->chunk);
  }
  return chunks;
}

}  // namespace lodgekv::pmem
