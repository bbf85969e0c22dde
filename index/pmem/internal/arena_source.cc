#include "index/pmem/internal/arena_source.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/pmem/internal/chunk_table.h"

namespace lodgekv::pmem {
namespace {

constexpr uint64_t kMinRows = 4;

// The first chunk begins after the table, at a multiple of 256.
uint64_t DataBegin(uint64_t rows) {
  return (PoolHeader::BytesFor(rows) + kBlockBytes - 1) & ~uint64_t{kBlockBytes - 1};
}

uint64_t ChunkBegin(const PoolGeometry& geometry, uint32_t row) {
  return DataBegin(geometry.chunk_rows) + row * geometry.chunk_bytes;
}

}  // namespace

absl::StatusOr<PoolGeometry> ArenaSource::Cut(uint64_t bytes, uint64_t chunk_bytes) {
  if (chunk_bytes == 0 || chunk_bytes % kBlockBytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("chunk size of an arena is ", chunk_bytes,
                                                   ", it must be a multiple of ", kBlockBytes,
                                                   " and not 0"));
  }
  uint64_t rows = bytes / (chunk_bytes + sizeof(media::ChunkRow));
  while (rows > 0 && DataBegin(rows) + rows * chunk_bytes > bytes) --rows;
  if (rows < kMinRows) {
    return absl::InvalidArgumentError(absl::StrCat("an arena of ", bytes, " bytes holds ", rows,
                                                   " chunks of ", chunk_bytes,
                                                   " bytes, it must hold at least ", kMinRows));
  }
  return PoolGeometry{bytes, chunk_bytes, chunk_bytes, rows, 1};
}

void ArenaSource::Format(Medium& medium, const PoolHeader& header) {
  for (uint32_t row = 0; row < header.rows().size(); ++row) {
    Word& object = header.rows()[row].object;
    medium.Store(object, ChunkBegin(header.geometry(), row));
    medium.Flush(&object, sizeof object);
  }
  medium.Fence();
}

absl::Status ArenaSource::Load(ChunkTable& table) {
  for (uint32_t row = 0; row < geometry_.chunk_rows; ++row) {
    const media::ChunkRow& on_media = table.rows()[row];
    if (on_media.pool_uuid.Load() != 0 || on_media.object.Load() != ChunkBegin(geometry_, row)) {
      return absl::DataLossError(
          absl::StrFormat("its chunk table is damaged: row %u names offset %u, its chunk is at %u",
                          row, on_media.object.Load(), ChunkBegin(geometry_, row)));
    }
    table.SetMemory(row, ChunkBegin(geometry_, row));
  }
  for (uint32_t row = 0; row < geometry_.chunk_rows; ++row) {
    const ChunkClass chunk_class = table.ClassOf(row);
    if (chunk_class.use != ChunkClass::kLargeObject) continue;
    const Run run{row, chunk_class.unit_bytes, true};
    if (run.rows == 0 || run.rows > geometry_.chunk_rows - row) {
      return absl::DataLossError(absl::StrFormat(
          "its chunk table is damaged: row %u begins a large object of %u chunks", row, run.rows));
    }
    for (uint32_t i = row + 1; i < row + run.rows; ++i) {
      if (table.ClassOf(i).use == 0) continue;
      return absl::DataLossError(absl::StrFormat(
          "its chunk table is damaged: row %u is in the large object of row %u", i, row));
    }
    TakeRun(table, run);
  }
  return absl::OkStatus();
}

ChunkSource::Large ArenaSource::ReserveLarge(ChunkTable& table, uint64_t bytes,
                                             uint64_t rows_to_keep) {
  const uint64_t rows = (bytes + geometry_.chunk_bytes - 1) / geometry_.chunk_bytes;
  if (rows == 0 || table.free_rows().size() < rows + rows_to_keep) return {};
  uint64_t length = 0;
  uint32_t last = 0;
  for (const uint32_t row : table.free_rows()) {
    length = length > 0 && row == last + 1 ? length + 1 : 1;
    last = row;
    if (length < rows) continue;
    const Run run{static_cast<uint32_t>(row + 1 - rows), static_cast<uint32_t>(rows), false};
    TakeRun(table, run);
    return {ChunkBegin(geometry_, run.row), rows * geometry_.chunk_bytes};
  }
  return {};
}

void ArenaSource::CommitLarge(ChunkTable& table, Offset offset) {
  Run& run = runs_.at(offset);
  table.SetClass(run.row, {ChunkClass::kLargeObject, run.rows});
  run.published = true;
}

void ArenaSource::FreeLarge(ChunkTable& table, Offset offset) {
  const Run run = runs_.at(offset);
  if (run.published) table.SetClass(run.row, {});
  for (uint32_t i = run.row; i < run.row + run.rows; ++i) table.AddFree(i);
  runs_.erase(offset);
  large_rows_ -= run.rows;
}

std::vector<ChunkSource::Large> ArenaSource::LargeObjects() const {
  std::vector<Large> objects;
  for (const auto& [offset, run] : runs_) {
    objects.push_back({offset, run.rows * geometry_.chunk_bytes});
  }
  return objects;
}

void ArenaSource::TakeRun(ChunkTable& table, const Run& run) {
  for (uint32_t i = run.row; i < run.row + run.rows; ++i) table.TakeFree(i);
  runs_[ChunkBegin(geometry_, run.row)] = run;
  large_rows_ += run.rows;
}

}  // namespace lodgekv::pmem
