#include "index/pmem/internal/pmemobj_source.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "index/pmem/internal/chunk_table.h"
#include "index/pmem/internal/metadata_guard.h"

namespace lodgekv::pmem {
namespace {

constexpr uint64_t kTypeChunk = 1;
constexpr uint64_t kTypeLarge = 2;

// libpmemobj's heap allocates in pieces of 256 KiB; each object begins with a header of 16 bytes.
constexpr uint64_t kHeapPiece = uint64_t{256} << 10;
constexpr uint64_t kObjectHeader = 16;
// Where the first piece begins, and the size of the table of a zone (65,528 pieces).
constexpr uint64_t kHeapBegin = 3679232;
constexpr uint64_t kZonePieces = 65528;
constexpr uint64_t kZoneTable = 524288;

constexpr uint64_t kMinChunk = uint64_t{64} << 10;
// With a bigger chunk a reserve of 64 MiB would be less than four chunks.
constexpr uint64_t kMaxChunk = uint64_t{16} << 20;
constexpr uint64_t kChunksPerPool = 512;

uint64_t AlignUp(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

uint64_t HeapPieces(uint64_t pool_bytes) {
  uint64_t pieces = 0;
  uint64_t at = kHeapBegin;
  while (at + kHeapPiece <= pool_bytes) {
    const uint64_t zone = std::min((pool_bytes - at) / kHeapPiece, kZonePieces);
    pieces += zone;
    at += zone * kHeapPiece + kZoneTable;
  }
  return pieces;
}

// Of a large object, from its first multiple of 256.
uint64_t UsableBytes(PMEMoid oid) {
  const uint64_t usable = pmemobj_alloc_usable_size(oid);
  return usable - std::min(usable, AlignUp(oid.off, kBlockBytes) - oid.off);
}

PMEMoid* OidOf(media::ChunkRow& row) { return reinterpret_cast<PMEMoid*>(&row); }

}  // namespace

uint64_t PmemobjSource::MinPoolBytes() { return PMEMOBJ_MIN_POOL; }

absl::StatusOr<PoolGeometry> PmemobjSource::Cut(uint64_t pool_bytes) {
  if (pool_bytes < MinPoolBytes()) {
    return absl::InvalidArgumentError(absl::StrCat("a pool of ", pool_bytes,
                                                   " bytes is too small, it must have at least ",
                                                   MinPoolBytes(), " (8 MiB)"));
  }
  PoolGeometry geometry;
  geometry.pool_bytes = pool_bytes;
  const uint64_t cost =
      std::clamp(std::bit_floor(pool_bytes / kChunksPerPool), kMinChunk, kMaxChunk);
  geometry.object_bytes = std::max(cost, kHeapPiece);
  geometry.chunks_per_object = static_cast<uint32_t>(geometry.object_bytes / cost);
  // After the object's header its first multiple of 256 is at 256.
  geometry.chunk_bytes = (geometry.object_bytes - kBlockBytes) / geometry.chunks_per_object /
                         kBlockBytes * kBlockBytes;
  geometry.chunk_rows =
      HeapPieces(pool_bytes) * kHeapPiece / geometry.object_bytes * geometry.chunks_per_object;
  return geometry;
}

uint64_t PmemobjSource::RootBytes(const PoolGeometry& geometry) {
  // Whole pieces: a smaller object would use part of a run of several pieces.
  const uint64_t needed = PoolHeader::BytesFor(geometry.chunk_rows) + kBlockBytes;
  return AlignUp(needed + kObjectHeader, kHeapPiece) - kObjectHeader;
}

ForeignWords PmemobjSource::WordsOfLibpmemobj(Offset rows_begin, uint64_t rows) {
  static_assert(sizeof(media::ChunkRow) * 2 == kLineBytes && sizeof(PMEMoid) == 2 * sizeof(Word));
  constexpr uint8_t kNotTheOids = 0b11001100;  // of the two rows of a line
  const uint64_t end = rows_begin + rows * sizeof(media::ChunkRow);
  return {rows_begin / kLineBytes, (end + kLineBytes - 1) / kLineBytes, kNotTheOids};
}

uint64_t PmemobjSource::capacity_bytes() const {
  const uint64_t root = RootBytes(geometry_) + kObjectHeader;
  return HeapPieces(geometry_.pool_bytes) * kHeapPiece - root;
}

absl::Status PmemobjSource::ListHeap(std::map<uint64_t, uint64_t>& chunk_objects) {
  InsideLibpmemobj inside(path_.c_str());
  uint64_t before = 0;
  for (PMEMoid oid = pmemobj_first(pool_); !OID_IS_NULL(oid); oid = pmemobj_next(oid)) {
    const uint64_t usable = pmemobj_alloc_usable_size(oid);
    if (oid.off <= before || oid.off > geometry_.pool_bytes ||
        usable > geometry_.pool_bytes - oid.off) {
      return absl::DataLossError(absl::StrFormat(
          "its heap is damaged: an object of %u bytes at offset %u, behind one at offset %u",
          usable, oid.off, before));
    }
    before = oid.off;
    inside.NoteProgress();
    const uint64_t type = pmemobj_type_num(oid);
    if (type == kTypeChunk) {
      chunk_objects[oid.off] = usable;
    } else if (type == kTypeLarge) {
      AddLarge({oid, UsableBytes(oid), true, {}});
    } else {
      return absl::DataLossError(absl::StrFormat(
          "its heap is damaged: the object at offset %u has the unknown type %u", oid.off, type));
    }
  }
  return absl::OkStatus();
}

absl::Status PmemobjSource::Load(ChunkTable& table) {
  std::map<uint64_t, uint64_t> objects;
  if (absl::Status status = ListHeap(objects); !status.ok()) return status;
  for (uint32_t row = 0; row < table.rows().size(); ++row) {
    const uint64_t object = table.rows()[row].object.Load();
    if (object == 0) continue;
    const auto it = objects.find(object);
    // pmemobj_pool_by_oid does not read the pool's memory.
    const bool sound = row % geometry_.chunks_per_object == 0 && it != objects.end() &&
                       it->second + kObjectHeader >= geometry_.object_bytes &&
                       pmemobj_pool_by_oid(*OidOf(table.rows()[row])) == pool_;
    if (!sound) {
      return absl::DataLossError(absl::StrFormat(
          "its chunk table is damaged: row %u names offset %u, where no object of %u bytes is that "
          "belongs to it",
          row, object, geometry_.object_bytes));
    }
    objects.erase(it);
    SetMemory(table, row, object);
  }
  if (objects.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("its chunk table is damaged: no row names the chunk object at offset %u",
                      objects.begin()->first));
}

void PmemobjSource::SetMemory(ChunkTable& table, uint32_t first_row, uint64_t object) {
  const uint64_t begin = AlignUp(object, kBlockBytes);
  for (uint32_t i = 0; i < geometry_.chunks_per_object; ++i) {
    table.SetMemory(first_row + i, begin + i * geometry_.chunk_bytes);
  }
}

bool PmemobjSource::AddMemory(ChunkTable& table, uint32_t row) {
  const uint32_t first = row - row % geometry_.chunks_per_object;
  PMEMoid* oid = OidOf(table.rows()[first]);
  const InsideLibpmemobj inside(path_.c_str());
  const size_t bytes = geometry_.object_bytes - kObjectHeader;
  if (pmemobj_alloc(pool_, oid, bytes, kTypeChunk, nullptr, nullptr) != 0) return false;
  SetMemory(table, first, oid->off);
  return true;
}

void PmemobjSource::RemoveMemory(ChunkTable& table, uint32_t row, uint64_t keep) {
  const uint32_t first = row - row % geometry_.chunks_per_object;
  const uint32_t end = first + geometry_.chunks_per_object;
  if (table.free_rows().size() < keep + geometry_.chunks_per_object) return;
  for (uint32_t i = first; i < end; ++i) {
    if (!table.free_rows().contains(i)) return;
  }
  const uint64_t begin = AlignUp(table.rows()[first].object.Load(), kBlockBytes);
  if (!Revoke(begin, geometry_.chunks_per_object * geometry_.chunk_bytes)) return;
  for (uint32_t i = first; i < end; ++i) table.ClearMemory(i);
  const InsideLibpmemobj inside(path_.c_str());
  pmemobj_free(OidOf(table.rows()[first]));
}

bool PmemobjSource::Revoke(Offset begin, uint64_t bytes) {
  return medium_.Revoke(reinterpret_cast<char*>(pool_) + begin, bytes);
}

ChunkSource::Large PmemobjSource::ReserveLarge(ChunkTable&, uint64_t exact_bytes, uint64_t) {
  // Whole lines: so our last line does not contain the next object's header, which libpmemobj
  // writes.
  const uint64_t bytes = AlignUp(exact_bytes, kLineBytes);
  const InsideLibpmemobj inside(path_.c_str());
  // The rows to keep have their own memory: what remains in the heap may be used.
  Object object;
  object.oid = pmemobj_reserve(pool_, &object.action, bytes + kBlockBytes, kTypeLarge);
  if (OID_IS_NULL(object.oid)) {
    // libpmemobj allocates many sizes from runs of several objects; single pieces may remain where
    // no run fits.
    const uint64_t pieces = AlignUp(bytes + kBlockBytes + kObjectHeader, kHeapPiece);
    object.oid = pmemobj_reserve(pool_, &object.action, pieces - kObjectHeader, kTypeLarge);
  }
  if (OID_IS_NULL(object.oid)) return {};
  object.bytes = UsableBytes(object.oid);
  AddLarge(object);
  return {AlignUp(object.oid.off, kBlockBytes), object.bytes};
}

void PmemobjSource::AddLarge(const Object& object) {
  large_[AlignUp(object.oid.off, kBlockBytes)] = object;
  large_bytes_ += object.bytes;
}

void PmemobjSource::CommitLarge(ChunkTable&, Offset offset) {
  Object& object = large_.at(offset);
  if (object.published) return;
  const InsideLibpmemobj inside(path_.c_str());
  // Fails only for more actions than a log holds; this is one.
  if (pmemobj_publish(pool_, &object.action, 1) == 0) object.published = true;
}

void PmemobjSource::FreeLarge(ChunkTable&, Offset offset) {
  Object& object = large_.at(offset);
  if (!Revoke(offset, object.bytes / kLineBytes * kLineBytes)) return;
  large_bytes_ -= object.bytes;
  const InsideLibpmemobj inside(path_.c_str());
  if (object.published) {
    pmemobj_free(&object.oid);
  } else {
    pmemobj_cancel(pool_, &object.action, 1);
  }
  large_.erase(offset);
}

std::vector<ChunkSource::Large> PmemobjSource::LargeObjects() const {
  std::vector<Large> objects;
  for (const auto& [offset, object] : large_) objects.push_back({offset, object.bytes});
  return objects;
}

}  // namespace lodgekv::pmem
