#include "tests/crash/lab/regions.h"

#include "absl/strings/str_cat.h"
#include "index/pmem/internal/pool_header.h"

namespace lodgekv::test {
namespace {

using pmem::media::ChunkRow;
using pmem::media::Header;
using pmem::media::StateSlot;

std::string HeaderRegion(pmem::Offset offset) {
  if (offset < offsetof(Header, state_word)) return "identity of the pool";
  if (offset < offsetof(Header, slots)) return "state word of the pool";
  if (offset < offsetof(Header, engine_area)) {
    return absl::StrCat("state slot ", (offset - offsetof(Header, slots)) / sizeof(StateSlot));
  }
  if (offset < sizeof(Header)) {
    return absl::StrCat("engine area, word ", (offset - offsetof(Header, engine_area)) / 8);
  }
  return absl::StrCat("chunk table, row ", (offset - sizeof(Header)) / sizeof(ChunkRow));
}

std::string_view UseName(pmem::ChunkUse use) {
  switch (use) {
    case pmem::ChunkUse::kNodes: return "leaf";
    case pmem::ChunkUse::kLogs: return "log";
    case pmem::ChunkUse::kRecords: return "record";
    case pmem::ChunkUse::kFree: break;
  }
  return "space";
}

}  // namespace

// Takes no lock: a stopped thread may hold any of them.
std::string RegionOf(const pmem::Pool& pool, pmem::Offset offset) {
  const uint64_t rows = pool.At<Header>(0)->identity.chunk_rows;
  if (offset < pmem::PoolHeader::BytesFor(rows)) return HeaderRegion(offset);
  const pmem::Chunk chunk = pool.FindChunk(offset);
  if (chunk.index == UINT32_MAX || chunk.unit_bytes == 0) return "a large object, or free space";
  const uint64_t within = (offset - chunk.begin) % chunk.unit_bytes;
  return absl::StrCat(std::string(UseName(chunk.use)), " at ", offset - within, " + ", within);
}

}  // namespace lodgekv::test
