#include "tests/support/engine_harness.h"

#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/support/pool_identity.h"
#include "tests/support/random.h"

namespace lodgekv::test {
namespace {

// Up to this size a new pool's memory is filled with garbage first; above it that takes too long.
constexpr uint64_t kGarbageBytes = uint64_t{8} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<EngineHarness>> EngineHarness::Create(
    const EngineCase& engine_case, const HarnessOptions& options) {
  std::unique_ptr<EngineHarness> harness(new EngineHarness(engine_case, options));
  if (absl::Status status = harness->CreateEngine(); !status.ok()) return status;
  return harness;
}

EngineHarness::~EngineHarness() {
  engine_.reset();
  pool_.reset();
}

absl::Status EngineHarness::CreateEngine() {
  if (persistent()) {
    memory_.emplace(options_.memory_bytes);
    if (options_.journal_bytes > 0) journal_.emplace(options_.journal_bytes);
    if (options_.memory_bytes <= kGarbageBytes) memory_->FillWithGarbage(TestSeed());
    auto pool = pmem::Pool::CreateArena(ArenaOptions(), IdentityOf(case_));
    if (!pool.ok()) return pool.status();
    pool_ = *std::move(pool);
  }
  const BulkLoad* load = std::exchange(options_.bulk_load, nullptr);
  auto engine =
      load == nullptr ? case_.engine->create(Context()) : case_.engine->bulk_load(Context(), *load);
  if (!engine.ok()) return engine.status();
  engine_ = *std::move(engine);
  return absl::OkStatus();
}

absl::Status EngineHarness::RecoverEngine() {
  auto pool = pmem::Pool::OpenArena(ArenaOptions());
  if (!pool.ok()) return pool.status();
  pool_ = *std::move(pool);
  recovery_ = {};
  auto engine = case_.engine->recover(Context(), &recovery_);
  if (!engine.ok()) return engine.status();
  engine_ = *std::move(engine);
  return absl::OkStatus();
}

void EngineHarness::ThrowNoEngine() const {
  throw std::runtime_error("no engine is left: its recovery failed");
}

absl::Status EngineHarness::CloseAndReopen() {
  if (absl::Status status = engine_->Close(); !status.ok()) return status;
  engine_.reset();
  if (absl::Status status = pool_->Close(/*clean=*/true); !status.ok()) return status;
  pool_.reset();
  return RecoverEngine();
}

absl::Status EngineHarness::KillAndReopen() {
  std::unique_lock<std::mutex> frozen;
  if (journal_) frozen = journal_->Freeze();
  ArenaMemory image = memory_->Copy();
  std::vector<std::byte> journal;
  if (journal_) {
    journal = journal_->content();
    frozen.unlock();
  }
  engine_.reset();
  pool_.reset();
  *memory_ = std::move(image);
  if (journal_) journal_->Restore(std::move(journal));
  return RecoverEngine();
}

EngineContext EngineHarness::Context() const {
  EngineContext context;
  context.pool = pool_.get();
  context.key_format = case_.key_format;
  context.inline_pairs = case_.inline_pairs;
  context.options = OptionsFor(case_, options_.engine_options);
  context.recovery_threads = options_.recovery_threads;
  context.on_recovery_end = options_.on_recovery_end;
  return context;
}

pmem::Pool::ArenaOptions EngineHarness::ArenaOptions() const {
  pmem::Pool::ArenaOptions arena;
  arena.memory = memory_->span();
  arena.chunk_bytes = options_.chunk_bytes;
  arena.strict_order = options_.strict_order;
  arena.tracer = options_.tracer;
  if (journal_) arena.journal = &journal_->arena();
  arena.verify_at_use = case_.engine->verifies_at_use;
  return arena;
}

}  // namespace lodgekv::test
