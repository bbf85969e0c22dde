#include "tests/crash/explorer/open_pool.h"

#include "tests/crash/lab/high_numbers.h"

namespace lodgekv::test {
namespace {

pmem::Pool::ArenaOptions ArenaOf(const ExplorerOptions& options, const ArenaMemory& memory,
                                 pmem::Tracer* tracer) {
  pmem::Pool::ArenaOptions arena;
  arena.memory = memory.span();
  arena.chunk_bytes = options.chunk_bytes;
  const bool by_fences = options.fault.kind == Fault::Kind::kOrderByFences;
  arena.strict_order =
      options.model == CrashModel::kTornWords && (!by_fences || options.long_fences);
  arena.long_fences = options.long_fences;
  arena.tracer = tracer;
  arena.verify_at_use = options.engine_case.engine->verifies_at_use;
  return arena;
}

}  // namespace

absl::StatusOr<std::unique_ptr<pmem::Pool>> OpenArena(const ExplorerOptions& options,
                                                      const ArenaMemory& memory,
                                                      pmem::Tracer* tracer) {
  return pmem::Pool::OpenArena(ArenaOf(options, memory, tracer));
}

EngineContext ContextOf(const ExplorerOptions& options, const OptionValues& engine_options,
                        pmem::Pool* pool) {
  EngineContext context;
  context.pool = pool;
  context.key_format = options.engine_case.key_format;
  context.inline_pairs = options.engine_case.inline_pairs;
  context.options = engine_options;
  return context;
}

absl::Status MakePool(const ExplorerOptions& options, ArenaMemory& memory) {
  memory.FillWithGarbage(TestSeed() + options.run);
  const auto pool = pmem::Pool::CreateArena(ArenaOf(options, memory, nullptr),
                                            IdentityOf(options.engine_case, options.run));
  if (!pool.ok()) return pool.status();
  if (options.first_sequence > 1) SetNextSequence(memory, options.first_sequence);
  return absl::OkStatus();
}

absl::Status OpenImage(const ExplorerOptions& options, const OptionValues& engine_options,
                       const ArenaMemory& memory, pmem::Tracer* tracer, OpenPool* open) {
  auto pool = OpenArena(options, memory, tracer);
  if (!pool.ok()) return pool.status();
  return OpenEngine(options, engine_options, *std::move(pool), open);
}

absl::Status OpenEngine(const ExplorerOptions& options, const OptionValues& engine_options,
                        std::unique_ptr<pmem::Pool> pool, OpenPool* open) {
  open->pool = std::move(pool);
  const EngineContext context = ContextOf(options, engine_options, open->pool.get());
  const EngineInfo& info = *options.engine_case.engine;
  const bool created = open->pool->engine_created();
  if (!created) open->pool->ResetForEngine();
  RecoveryReport report;
  auto engine = created ? info.recover(context, &report) : info.create(context);
  if (!engine.ok()) return engine.status();
  if (!created) open->pool->MarkEngineCreated();
  open->engine = *std::move(engine);
  return absl::OkStatus();
}

}  // namespace lodgekv::test
