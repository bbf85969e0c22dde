// Records on the medium: what is written is read back, any damaged byte is detected, and arbitrary
// content counts as a record only if it is one.
#include <algorithm>
#include <string>
#include <string_view>

#include "index/node/record.h"
#include "tests/fuzz/arena_pool.h"
#include "tests/fuzz/fuzz_target.h"

namespace lodgekv {
namespace {

constexpr uint64_t kSpaceBytes = 1024;

struct World {
  fuzz::ArenaPool memory{size_t{1} << 16, 8192};
  pmem::Pool& pool = memory.pool();
  pmem::RecordSlab slab{pool};
  pmem::Offset spaces[2] = {slab.Allocate(kSpaceBytes, pmem::ReservePolicy::kKeep),
                            slab.Allocate(kSpaceBytes, pmem::ReservePolicy::kKeep)};
  char* At(int number) { return pool.At<char>(spaces[number]); }
};

World& TheWorld() {
  static auto* world = new World;
  return *world;
}

// The planted bug: the checksum does not cover the reserved half of the word that holds
// value_bytes.
bool Verify(World& world, pmem::Offset offset, RecordView* view) {
  auto& word = world.pool.At<media::RecordHeader>(offset)->value_bytes;
  const uint64_t whole = word.LoadRelaxed();
  if (fuzz::BugIsPlanted()) world.pool.medium().Store(word, whole & 0xffffffff);
  const bool sound = VerifyRecord(world.pool, world.slab, offset, view);
  world.pool.medium().Store(word, whole);
  return sound;
}

uint64_t Write(World& world, int number, std::string_view key, std::string_view value,
               uint64_t expiry, uint64_t version) {
  StagedRecord record =
      StageRecordAt(world.pool, world.slab, world.spaces[number], key, value, expiry);
  FinishRecord(world.pool, record, version);
  return record.bytes;
}

void CheckWritten(World& world, fuzz::InputReader input) {
  const uint64_t version = input.Number(6);
  const uint64_t expiry = input.Number(6);
  const size_t place = input.Number(2);
  const uint8_t damage = input.Byte();
  const std::string key(input.Text());
  const std::string value(input.Rest().substr(0, 600));
  const uint64_t bytes = Write(world, 0, key, value, expiry, version);
  RecordView view;
  FUZZ_REQUIRE(Verify(world, world.spaces[0], &view), key);
  FUZZ_REQUIRE(view.key == key && view.value == value, key);
  FUZZ_REQUIRE(view.version == version && view.expiry_unix_ms == expiry, key);
  FUZZ_REQUIRE(bytes == RecordBytes(key.size(), value.size(), expiry != 0), key);
  // Its bytes at another place are not a record.
  std::memcpy(world.At(1), world.At(0), bytes);
  FUZZ_REQUIRE(!Verify(world, world.spaces[1], &view), key);
  if (damage == 0) return;
  world.At(0)[place % bytes] ^= static_cast<char>(damage);
  FUZZ_REQUIRE(!Verify(world, world.spaces[0], &view), key);
  // A reader of a linked record must stay within the pool.
  view = ViewRecord(world.pool, world.spaces[0]);
  const char* const end = world.pool.base() + world.pool.bytes();
  FUZZ_REQUIRE(view.value.data() + view.value.size() <= end, key);
  FUZZ_REQUIRE(view.key.data() + view.key.size() <= end, key);
}

bool InSpace(World& world, std::string_view text) {
  const char* const begin = world.At(0);
  return text.data() >= begin && text.data() + text.size() <= begin + kSpaceBytes;
}

// Arbitrary bytes in the space of a record. `offset` is any number.
void CheckFound(World& world, pmem::Offset offset, std::string_view bytes) {
  std::memset(world.At(0), 0, kSpaceBytes);
  std::memcpy(world.At(0), bytes.data(), std::min<size_t>(bytes.size(), kSpaceBytes));
  RecordView view;
  const pmem::Offset wild = offset % (2 * world.pool.bytes());
  if (world.slab.SpaceAt(wild) == 0) {
    FUZZ_REQUIRE(!VerifyRecord(world.pool, world.slab, wild, &view), "no space begins there");
  }
  if (!Verify(world, world.spaces[0], &view)) return;
  FUZZ_REQUIRE(InSpace(world, view.key) && InSpace(world, view.value), "outside of its space");
  const auto* header = world.pool.At<media::RecordHeader>(world.spaces[0]);
  const uint64_t flags = header->crc_and_lengths.LoadRelaxed() >> 48;
  const bool has_expiry = view.expiry_unix_ms != 0;
  // Of an unknown version of the format, but with a matching checksum: accepted.
  if (flags != (has_expiry ? media::kRecordHasExpiry : 0)) return;
  if (header->value_bytes.LoadRelaxed() >> 32 != 0) return;
  // Then it equals the record made from this content.
  const std::string key(view.key);
  const std::string value(view.value);
  const std::string found(world.At(0), RecordBytes(key.size(), value.size(), has_expiry));
  Write(world, 0, key, value, view.expiry_unix_ms, view.version);
  FUZZ_REQUIRE(std::string_view(world.At(0), found.size()) == found, key);
}

}  // namespace
}  // namespace lodgekv

// The first byte: even, a record to be written; odd, bytes to be found.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lodgekv;
  fuzz::InputReader input(data, size);
  if (input.Byte() % 2 == 0) {
    CheckWritten(TheWorld(), input);
  } else {
    const uint64_t offset = input.Number(4);
    CheckFound(TheWorld(), offset, input.Rest());
  }
  return 0;
}
