#include "tests/crash/scenarios/released_logs.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "index/pmem/pool.h"
#include "index/pmem/unit_arena.h"
#include "tests/crash/lab/image_set.h"

namespace lodgekv::test {
namespace {

constexpr uint32_t kUnit = 1024;
constexpr uint64_t kBytes = uint64_t{128} << 10;
constexpr uint64_t kExhaustiveUpTo = 4096;
constexpr unsigned kSamples = 64;

pmem::Pool::ArenaOptions OptionsOf(const ArenaMemory& memory, CrashModel model,
                                   pmem::Tracer* tracer) {
  pmem::Pool::ArenaOptions options;
  options.memory = memory.span();
  options.chunk_bytes = 4096;
  options.strict_order = model == CrashModel::kTornWords;
  options.tracer = tracer;
  return options;
}

std::unique_ptr<pmem::Pool> OpenPool(const pmem::Pool::ArenaOptions& options) {
  auto pool = pmem::Pool::OpenArena(options);
  if (!pool.ok()) throw std::runtime_error(pool.status().ToString());
  return *std::move(pool);
}

// Whether any unit of the chunk begins with a nonzero word.
bool HoldsHeads(const ArenaMemory& image, const pmem::Chunk& chunk) {
  for (uint64_t at = chunk.begin; at < chunk.begin + chunk.bytes; at += kUnit) {
    const auto head = image.span().subspan(at, pmem::kLineBytes);
    if (std::any_of(head.begin(), head.end(), [](std::byte b) { return b != std::byte{0}; })) {
      return true;
    }
  }
  return false;
}

// A chunk whose units were all written and then freed.
pmem::Chunk UseUp(pmem::Pool& pool, pmem::UnitArena& logs) {
  std::vector<pmem::Offset> units;
  for (uint64_t i = 0; i < pool.chunk_bytes() / kUnit; ++i) {
    units.push_back(logs.Allocate(pmem::ReservePolicy::kKeep));
  }
  const std::string content(kUnit, 'x');
  for (const pmem::Offset unit : units) {
    pool.medium().StoreBulk(pool.At<char>(unit), content.data(), kUnit);
    pool.medium().Persist(pool.At<char>(unit), kUnit);
    logs.Free(unit);
  }
  return pool.FindChunk(units.front());
}

}  // namespace

ReleasedLogs RunReleasedLogsScenario(CrashModel model, Fault fault) {
  ArenaMemory memory(kBytes);
  pmem::PoolIdentity identity;
  identity.engine = "test";
  const auto created = pmem::Pool::CreateArena(OptionsOf(memory, model, nullptr), identity);
  if (!created.ok()) throw std::runtime_error(created.status().ToString());
  CrashTracer tracer(memory.span(), fault);
  const auto pool = OpenPool(OptionsOf(memory, model, &tracer));
  pmem::UnitArena logs(*pool, pmem::ChunkUse::kLogs, kUnit, pmem::ZeroHeads::kWhenReleased);
  const pmem::Chunk chunk = UseUp(*pool, logs);

  ReleasedLogs result;
  Random random("released logs");
  const auto look = [&] {
    ArenaMemory image(kBytes);
    const ImageSet images(tracer, model);
    images.Visit(kExhaustiveUpTo, kSamples, random, [&](const ImageSet::Picks& picks) {
      ++result.images;
      std::memcpy(image.span().data(), tracer.durable().data(), kBytes);
      images.Apply(picks, image.span().data());
      if (!OpenPool(OptionsOf(image, model, nullptr))->Chunks().empty()) return true;
      ++result.with_free_chunk;
      result.with_old_logs += HoldsHeads(image, chunk) ? 1 : 0;
      return true;
    });
  };
  tracer.before_fence = look;
  logs.GiveBackEmptyChunks();
  look();
  tracer.before_fence = nullptr;
  return result;
}

}  // namespace lodgekv::test
