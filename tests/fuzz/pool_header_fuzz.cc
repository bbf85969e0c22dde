// The header of a pool: sound pools with changed bytes, and with right or wrong checksums. Accepted
// values lie within the pool; in a sealed pool every changed byte is detected.
#include <array>
#include <cstring>
#include <vector>

#include "index/pmem/crc32c.h"
#include "index/pmem/internal/pool_header.h"
#include "tests/fuzz/arena_pool.h"
#include "tests/fuzz/fuzz_target.h"

namespace lodgekv::pmem {
namespace {

constexpr size_t kPoolBytes = size_t{64} << 10;
constexpr uint64_t kChunkBytes = 4096;

struct alignas(4096) Image {
  std::array<std::byte, kPoolBytes> bytes;
  media::Header& header() { return *reinterpret_cast<media::Header*>(bytes.data()); }
  Pool::ArenaOptions Options() {
    Pool::ArenaOptions options;
    options.memory = bytes;
    options.chunk_bytes = kChunkBytes;
    return options;
  }
};

// A pool with chunks of each use, closed cleanly or not.
void MakeImage(Image& image, bool sealed) {
  PoolIdentity identity;
  identity.engine = "fuzz";
  identity.media_version = 1;
  identity.pool_id.fill(0x5a);
  image.bytes.fill(std::byte{0xa5});
  auto pool = Pool::CreateArena(image.Options(), identity);
  FUZZ_REQUIRE(pool.ok(), pool.status().ToString());
  for (const ChunkUse use : {ChunkUse::kNodes, ChunkUse::kLogs, ChunkUse::kRecords}) {
    const auto chunk = (*pool)->AcquireChunk(use, 256, ReservePolicy::kKeep);
    FUZZ_REQUIRE(chunk.ok(), chunk.status().ToString());
  }
  const Offset large = (*pool)->ReserveLarge(2 * kChunkBytes, ReservePolicy::kKeep);
  FUZZ_REQUIRE(large != 0, "large object");
  (*pool)->CommitLarge(large);
  (*pool)->MarkEngineCreated();
  const absl::Status closed = (*pool)->Close(sealed);
  FUZZ_REQUIRE(closed.ok(), closed.ToString());
}

const Image& Original(bool sealed) {
  static const auto* images = [] {
    auto* made = new std::array<Image, 2>;
    MakeImage((*made)[0], false);
    MakeImage((*made)[1], true);
    return made;
  }();
  return (*images)[sealed ? 1 : 0];
}

// Recomputes the checksums, as a faulty writer would.
void MendChecksums(media::Header& header) {
  header.identity.crc = IdentityCrc(header.identity);
  std::array<uint8_t, 16> pool_id;
  std::memcpy(pool_id.data(), header.identity.pool_id, pool_id.size());
  const uint32_t seed = PoolHeader::SeedOf(pool_id);
  for (media::StateSlot& slot : header.slots) {
    slot.crc = Crc32c(seed, &slot, offsetof(media::StateSlot, crc));
  }
}

// The planted bug: the size of the pool is not checked.
absl::Status LoadIdentity(PoolHeader& header, size_t available) {
  return header.LoadIdentity(fuzz::BugIsPlanted() ? SIZE_MAX : available);
}

// Returns whether the header was accepted.
bool CheckHeader(Image& image, size_t available) {
  Medium medium(Medium::Options{});
  PoolHeader header(medium, &image.header());
  absl::Status status = LoadIdentity(header, available);
  if (status.ok()) {
    const PoolGeometry& geometry = header.geometry();
    FUZZ_REQUIRE(PoolHeader::BytesFor(geometry.chunk_rows) <= available, "chunk rows");
    FUZZ_REQUIRE(geometry.chunk_bytes > 0 && geometry.chunk_cost() >= geometry.chunk_bytes,
                 "chunks");
    FUZZ_REQUIRE(header.identity().engine.size() < media::kEngineNameBytes, "engine");
    status = header.LoadState();
  }
  if (status.ok()) {
    FUZZ_REQUIRE(static_cast<uint32_t>(header.state().generation) ==
                     static_cast<uint32_t>(image.header().state_word.Load()),
                 "generation");
    status = header.NeededSession().status();
  }
  if (!status.ok()) {
    FUZZ_REQUIRE(fuzz::IsOnePrintableLine(status.message()), status.message());
  }
  return status.ok();
}

// Everything that the pool reports lies within it, without overlaps.
void CheckPool(Image& image, bool header_taken, bool mended) {
  const auto pool = Pool::OpenArena(image.Options());
  if (!pool.ok()) {
    FUZZ_REQUIRE(fuzz::IsOnePrintableLine(pool.status().message()), pool.status().message());
    return;
  }
  FUZZ_REQUIRE(header_taken, "a pool whose header was refused");
  std::vector<bool> taken(kPoolBytes / 256);
  const auto take = [&](Offset begin, uint64_t bytes) {
    FUZZ_REQUIRE(begin % 256 == 0 && begin >= sizeof(media::Header), "begin");
    FUZZ_REQUIRE(begin <= kPoolBytes && bytes <= kPoolBytes - begin, "end");
    for (uint64_t block = begin / 256; block < (begin + bytes) / 256; ++block) {
      FUZZ_REQUIRE(!taken[block], "taken twice");
      taken[block] = true;
    }
  };
  for (const Chunk& chunk : (*pool)->Chunks()) take(chunk.begin, chunk.bytes);
  for (const Offset large : (*pool)->LargeObjects()) take(large, (*pool)->LargeBytes(large));
  // With recomputed checksums a header may claim any costs.
  FUZZ_REQUIRE(mended || (*pool)->allocated_bytes() <= (*pool)->capacity_bytes(), "allocated");
  const uint64_t first = (*pool)->TakeSequence(1);
  FUZZ_REQUIRE(first > 0 && first < (uint64_t{1} << 52), "sequence");
}

void Check(fuzz::InputReader input) {
  static auto* image = new Image;
  const uint8_t kind = input.Byte();
  const bool sealed = (kind & 1) != 0;
  const bool mended = (kind & 2) != 0;
  const size_t available = (kind & 4) != 0 ? input.Number(2) : kPoolBytes;
  *image = Original(sealed);
  const size_t header_bytes = PoolHeader::BytesFor(image->header().identity.chunk_rows);
  size_t changed = 0;
  while (!input.empty()) {
    const size_t place = input.Number(2) % header_bytes;
    const auto flip = std::byte{input.Byte()};
    image->bytes[place] ^= flip;
    if (flip != std::byte{0}) ++changed;
  }
  if (mended) MendChecksums(image->header());
  const Image before = *image;
  const bool taken = CheckHeader(*image, available);
  FUZZ_REQUIRE(image->bytes == before.bytes, "looking has changed the pool");
  FUZZ_REQUIRE(!taken || !sealed || mended || changed != 1, "a changed byte of a sealed pool");
  if (available == kPoolBytes) CheckPool(*image, taken, mended);
}

}  // namespace
}  // namespace lodgekv::pmem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lodgekv::pmem::Check(lodgekv::fuzz::InputReader(data, size));
  return 0;
}
