#include "tests/corruption/victim.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "index/pmem/internal/pool_header.h"
#include "tests/support/pool_identity.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

constexpr uint64_t kArenaBytes = uint64_t{512} << 10;
constexpr uint64_t kChunkBytes = uint64_t{8} << 10;
constexpr uint64_t kPuts = 240;
constexpr uint64_t kFreshPuts = 12;

void Must(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

template <class T>
T Take(absl::StatusOr<T> result) {
  Must(result.status());
  return *std::move(result);
}

pmem::Pool::ArenaOptions ArenaOf(std::span<std::byte> memory, bool verify_at_use = false) {
  pmem::Pool::ArenaOptions arena;
  arena.memory = memory;
  arena.chunk_bytes = kChunkBytes;
  arena.verify_at_use = verify_at_use;
  return arena;
}

}  // namespace

Victim::Victim(const EngineCase& engine_case, bool closed)
    : case_(engine_case), image_(kArenaBytes), copy_(kArenaBytes) {
  ArenaMemory memory(kArenaBytes);
  memory.FillWithGarbage(TestSeed());
  auto pool = Take(pmem::Pool::CreateArena(ArenaOf(memory.span()), IdentityOf(case_)));
  auto engine = Take(case_.engine->create(ContextOf(pool.get())));
  pool->MarkEngineCreated();
  content_ = Furnish(*engine, case_, kPuts, kFreshPuts);
  if (closed) {
    Must(engine->Close());
    engine.reset();
    Must(pool->Close(true));
    pool.reset();
  }
  std::memcpy(image_.span().data(), memory.span().data(), kArenaBytes);
  FindRegions();
}

EngineContext Victim::ContextOf(pmem::Pool* pool) const {
  EngineContext context;
  context.pool = pool;
  context.key_format = case_.key_format;
  context.inline_pairs = case_.inline_pairs;
  context.options = OptionsFor(case_);
  return context;
}

void Victim::FindRegions() {
  using pmem::media::Header;
  const auto add = [this](std::string name, uint64_t begin, uint64_t end) {
    regions_.push_back({std::move(name), begin, end});
  };
  add("identity", 0, offsetof(Header, state_word));
  add("state word and padding", offsetof(Header, state_word), offsetof(Header, slots));
  add("state slots", offsetof(Header, slots), offsetof(Header, engine_area));
  add("engine area", offsetof(Header, engine_area), sizeof(Header));
  std::memcpy(copy_.span().data(), image_.span().data(), bytes());
  const auto pool = Take(pmem::Pool::OpenArena(ArenaOf(copy_.span())));
  const std::vector<pmem::Chunk> chunks = pool->Chunks();
  add("chunk table", sizeof(Header),
      pmem::PoolHeader::BytesFor(kArenaBytes / (kChunkBytes + sizeof(pmem::media::ChunkRow))));
  const char* const names[] = {"", "nodes", "logs", "records"};
  for (const pmem::Chunk& chunk : chunks) {
    regions_.push_back({names[static_cast<size_t>(chunk.use)], chunk.begin,
                        chunk.begin + chunk.bytes, chunk.unit_bytes, chunk.use});
  }
  for (const pmem::Offset offset : pool->LargeObjects()) {
    add("large records", offset, offset + pool->LargeBytes(offset));
  }
}

const Region& Victim::RegionOf(uint64_t offset) const {
  static const Region kElsewhere{.name = "free space"};
  for (const Region& region : regions_) {
    if (offset >= region.begin && offset < region.end) return region;
  }
  return kElsewhere;
}

Verdict Victim::Flip(uint64_t offset, unsigned bit) const {
  std::memcpy(copy_.span().data(), image_.span().data(), bytes());
  copy_.span()[offset] ^= std::byte{1} << bit;
  return Try(copy_.span());
}

Verdict Victim::Truncate(uint64_t bytes) const {
  std::memcpy(copy_.span().data(), image_.span().data(), bytes);
  return Try(copy_.span().first(bytes));
}

Verdict Victim::Try(std::span<std::byte> memory) const {
  const auto refused = [](const absl::Status& status) -> Verdict {
    const std::string message(status.message());
    return {NamesAPlace(message) ? Effect::kRefused : Effect::kUnnamed, message};
  };
  auto pool = pmem::Pool::OpenArena(ArenaOf(memory, case_.engine->verifies_at_use));
  if (!pool.ok()) return refused(pool.status());
  const pmem::PoolIdentity& identity = (*pool)->identity();
  if (identity.engine != case_.engine->name) return {Effect::kWrong, "the engine's name"};
  if (!(*pool)->engine_created()) return {Effect::kWrong, "the pool counts as having no engine"};
  RecoveryReport report;
  auto engine = case_.engine->recover(ContextOf(pool->get()), &report);
  if (!engine.ok()) return refused(engine.status());
  return Interrogate(**engine, case_, content_);
}

}  // namespace lodgekv::test
