// Creates the explorer's pools, and opens what a crash left of them.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "index/pmem/pool.h"
#include "tests/crash/explorer/explorer.h"
#include "tests/support/pool_identity.h"

namespace lodgekv::test {

// An opened image: the pool and its engine, created anew if the crash interrupted the creation.
struct OpenPool {
  std::unique_ptr<pmem::Pool> pool;  // outlives the engine
  std::unique_ptr<Engine> engine;

  OpenPool() = default;
  OpenPool(OpenPool&&) = default;
  OpenPool& operator=(OpenPool&&) = delete;
  ~OpenPool() { engine.reset(); }
};

// Opens the pool in `memory`; `tracer` may be null.
absl::StatusOr<std::unique_ptr<pmem::Pool>> OpenArena(const ExplorerOptions& options,
                                                      const ArenaMemory& memory,
                                                      pmem::Tracer* tracer);
EngineContext ContextOf(const ExplorerOptions& options, const OptionValues& engine_options,
                        pmem::Pool* pool);
// Creates a pool over the memory's previous content; its engine is not created yet.
absl::Status MakePool(const ExplorerOptions& options, ArenaMemory& memory);
// Opens the pool with the engine's real recovery.
absl::Status OpenImage(const ExplorerOptions& options, const OptionValues& engine_options,
                       const ArenaMemory& memory, pmem::Tracer* tracer, OpenPool* open);
// The same for a pool that is already open.
absl::Status OpenEngine(const ExplorerOptions& options, const OptionValues& engine_options,
                        std::unique_ptr<pmem::Pool> pool, OpenPool* open);

}  // namespace lodgekv::test
