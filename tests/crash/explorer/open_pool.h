// How the explorer makes a pool, and opens what a crash has left of it.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "index/pmem/pool.h"
#include "tests/crash/explorer/explorer.h"
#include "tests/support/pool_identity.h"

namespace lodgekv::test {

// What a crash left, opened: the pool and its engine, created anew where creation was cut.
struct OpenPool {
  std::unique_ptr<pmem::Pool> pool;  // outlives the engine
  std::unique_ptr<Engine> engine;

  OpenPool() = default;
  OpenPool(OpenPool&&) = default;
  OpenPool& operator=(OpenPool&&) = delete;
  ~OpenPool() { engine.reset(); }
};

// The pool as it lies in `memory`; `tracer` may be null.
absl::StatusOr<std::unique_ptr<pmem::Pool>> OpenArena(const ExplorerOptions& options,
                                                      const ArenaMemory& memory,
                                                      pmem::Tracer* tracer);
EngineContext ContextOf(const ExplorerOptions& options, const OptionValues& engine_options,
                        pmem::Pool* pool);
// A new pool over what the memory held before; its engine is yet to be created.
absl::Status MakePool(const ExplorerOptions& options, ArenaMemory& memory);
// Opens by the engine's real recovery.
absl::Status OpenImage(const ExplorerOptions& options, const OptionValues& engine_options,
                       const ArenaMemory& memory, pmem::Tracer* tracer, OpenPool* open);
// The same of a pool that is open already.
absl::Status OpenEngine(const ExplorerOptions& options, const OptionValues& engine_options,
                        std::unique_ptr<pmem::Pool> pool, OpenPool* open);

}  // namespace lodgekv::test
