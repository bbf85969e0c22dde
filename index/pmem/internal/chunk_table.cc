#include "index/pmem/internal/chunk_table.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_format.h"
#include "index/pmem/crash_point.h"

namespace lodgekv::pmem {

ChunkTable::ChunkTable(Medium& medium, const PoolHeader& header, uint64_t reserve_rows)
    : medium_(medium),
      rows_(header.rows()),
      chunk_bytes_(header.geometry().chunk_bytes),
      chunk_cost_(header.geometry().chunk_cost()),
      pool_bytes_(header.geometry().pool_bytes),
      shift_(static_cast<unsigned>(std::bit_width(chunk_bytes_)) - 1),
      crc_seed_(header.crc_seed()),
      reserve_rows_(reserve_rows),
      state_(std::make_unique<RowState[]>(rows_.size())),
      index_((pool_bytes_ >> shift_) + 2) {}

absl::Status ChunkTable::Load(ChunkSource& source) {
  for (uint32_t row = 0; row < rows_.size(); ++row) {
    const uint64_t word = rows_[row].class_word.Load();
    ChunkClass chunk_class;
    if (!ChunkClass::Decode(word, crc_seed_, row, &chunk_class)) {
      return absl::DataLossError(absl::StrFormat(
          "its chunk table is damaged: row %u has class word 0x%016x with wrong check bits", row,
          word));
    }
    state_[row].class_bits.store(chunk_class.use | uint64_t{chunk_class.unit_bytes} << 32,
                                 std::memory_order_relaxed);
  }
  if (absl::Status status = source.Load(*this); !status.ok()) return status;
  for (uint32_t row = 0; row < rows_.size(); ++row) {
    if (!HasMemory(row)) bare_.insert(bare_.end(), row);
    if (ClassOf(row).use == 0) continue;
    if (!HasMemory(row)) {
      return absl::DataLossError(
          absl::StrFormat("its chunk table is damaged: row %u is in use but has no memory", row));
    }
    free_.erase(row);
    if (ClassOf(row).use != ChunkClass::kLargeObject) ++in_use_;
  }
  return absl::OkStatus();
}

absl::StatusOr<Chunk> ChunkTable::Acquire(ChunkSource& source, const Wanted& wanted,
                                          absl::FunctionRef<void(const Chunk&)> prepare) {
  const uint64_t kept = wanted.policy == ReservePolicy::kKeep ? reserve_rows_ : 0;
  if (!Stock(source, kept + 1)) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "the pool is full: %u of its chunks of %u bytes are in use, %u are kept in reserve",
        in_use_, chunk_bytes_, free_.size()));
  }
  const uint32_t row = *free_.begin();
  free_.erase(free_.begin());
  prepare({row, Begin(row), chunk_bytes_, wanted.use, wanted.unit_bytes});
  SetClass(row, {static_cast<uint8_t>(wanted.use), wanted.unit_bytes});
  ++in_use_;
  return MakeChunk(row);
}

void ChunkTable::Release(uint32_t row) {
  SetClass(row, {});
  free_.insert(row);
  --in_use_;
}

std::vector<Chunk> ChunkTable::InUse() const {
  std::vector<Chunk> chunks;
  for (uint32_t row = 0; row < rows_.size(); ++row) {
    const uint8_t use = ClassOf(row).use;
    if (use != 0 && use != ChunkClass::kLargeObject) chunks.push_back(MakeChunk(row));
  }
  return chunks;
}

Chunk ChunkTable::Find(Offset offset) const {
  if (offset < pool_bytes_) {
    const uint64_t pair = index_[offset >> shift_].load(std::memory_order_acquire);
    const auto first = static_cast<uint32_t>(pair);
    const auto second = static_cast<uint32_t>(pair >> 32);
    const auto covers = [&](uint32_t entry) {
      return entry != 0 && offset - Begin(entry - 1) < chunk_bytes_;
    };
    // Not a branch, which would be foreseen wrongly half the time.
    const uint32_t entry = second ^ ((first ^ second) & -static_cast<uint32_t>(covers(first)));
    if (covers(entry)) {
      const Chunk chunk = MakeChunk(entry - 1);
      if (chunk.use != ChunkUse::kFree) return chunk;
    }
  }
  Chunk none;
  none.index = UINT32_MAX;
  return none;
}

ChunkClass ChunkTable::ClassOf(uint32_t row) const {
  const uint64_t bits = state_[row].class_bits.load(std::memory_order_acquire);
  return {static_cast<uint8_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

void ChunkTable::SetClass(uint32_t row, const ChunkClass& chunk_class) {
  Word& word = rows_[row].class_word;
  medium_.Store(word, chunk_class.Encode(crc_seed_, row));
  medium_.FlushLine(&word);
  LODGEKV_CRASH_POINT(medium_, "pmem.chunk.1");
  medium_.Fence();
  state_[row].class_bits.store(chunk_class.use | uint64_t{chunk_class.unit_bytes} << 32,
                               std::memory_order_release);
}

void ChunkTable::SetMemory(uint32_t row, Offset begin) {
  state_[row].begin.store(begin, std::memory_order_release);
  Index(row, begin, true);
  bare_.erase(row);
  free_.insert(free_.end(), row);
}

void ChunkTable::ClearMemory(uint32_t row) {
  Index(row, Begin(row), false);
  state_[row].begin.store(0, std::memory_order_release);
  free_.erase(row);
  bare_.insert(row);
}

void ChunkTable::Trim(ChunkSource& source, uint64_t keep) {
  // From the end, so that chunks in use gather at the front of the table.
  const std::vector<uint32_t> rows(free_.rbegin(), free_.rend());
  for (const uint32_t row : rows) {
    // The row may have been removed together with its neighbour.
    if (free_.contains(row)) source.RemoveMemory(*this, row, keep);
  }
}

bool ChunkTable::Stock(ChunkSource& source, uint64_t count) {
  while (free_.size() < count) {
    if (bare_.empty() || !source.AddMemory(*this, *bare_.begin())) return false;
  }
  return true;
}

Chunk ChunkTable::MakeChunk(uint32_t row) const {
  const ChunkClass chunk_class = ClassOf(row);
  Chunk chunk;
  chunk.index = row;
  chunk.begin = Begin(row);
  chunk.bytes = chunk_bytes_;
  // The chunks under an arena's large object are not chunks for any other use.
  chunk.use = chunk_class.use == ChunkClass::kLargeObject ? ChunkUse::kFree
                                                          : static_cast<ChunkUse>(chunk_class.use);
  chunk.unit_bytes = chunk_class.unit_bytes;
  return chunk;
}

void ChunkTable::Index(uint32_t row, Offset begin, bool add) {
  const uint64_t entry = row + 1;
  for (uint64_t i = begin >> shift_; i <= (begin + chunk_bytes_ - 1) >> shift_; ++i) {
    const uint64_t pair = index_[i].load(std::memory_order_relaxed);
    const uint64_t low = pair & 0xffffffff;
    const uint64_t high = pair >> 32;
    uint64_t next = pair;
    if (add) {
      next = low == 0 ? high << 32 | entry : entry << 32 | low;
    } else {
      next = low == entry ? high << 32 : low;
    }
    index_[i].store(next, std::memory_order_release);
  }
}

}  // namespace lodgekv::pmem
