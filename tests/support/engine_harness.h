// An engine under test, a persistent one on a pool in plain memory. It can be closed and recovered,
// or dropped like a killed process and recovered: its memory is copied first, so that destructors
// cannot change the medium.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/engine.h"
#include "index/engine_info.h"
#include "index/pmem/pool.h"
#include "tests/support/arena_memory.h"
#include "tests/support/engine_case.h"
#include "tests/support/memory_journal.h"

namespace lodgekv::test {

struct HarnessOptions {
  uint64_t memory_bytes = uint64_t{64} << 20;
  uint64_t chunk_bytes = uint64_t{64} << 10;
  bool strict_order = false;
  // Not 0: as on an ordinary file, with segments of so many bytes in its journal.
  uint64_t journal_bytes = 0;
  unsigned recovery_threads = 1;
  pmem::Tracer* tracer = nullptr;    // sees every store, flush and fence; outlives the harness
  RecoveryEnd on_recovery_end = {};  // see EngineContext
  std::map<std::string, std::string> engine_options = {};  // over those of the case
  const BulkLoad* bulk_load = nullptr;  // not null: what the engine is created by
};

class EngineHarness {
 public:
  static absl::StatusOr<std::unique_ptr<EngineHarness>> Create(const EngineCase& engine_case,
                                                               const HarnessOptions& options = {});
  // Drops the engine without Close.
  ~EngineHarness();

  // Throws if the last recovery failed, so that the test fails with that error.
  Engine& engine() {
    if (engine_ == nullptr) ThrowNoEngine();
    return *engine_;
  }
  const EngineCase& engine_case() const { return case_; }
  bool persistent() const { return case_.engine->persistent; }
  pmem::Pool* pool() { return pool_.get(); }

  // Only for persistent engines. References to the engine are invalid afterwards.
  [[nodiscard]] absl::Status CloseAndReopen();
  [[nodiscard]] absl::Status KillAndReopen();
  // The report of the last of these two.
  const RecoveryReport& recovery() const { return recovery_; }
  void set_recovery_threads(unsigned threads) { options_.recovery_threads = threads; }

 private:
  EngineHarness(const EngineCase& engine_case, const HarnessOptions& options)
      : case_(engine_case), options_(options) {}

  absl::Status CreateEngine();
  absl::Status RecoverEngine();
  [[noreturn]] void ThrowNoEngine() const;
  EngineContext Context() const;
  pmem::Pool::ArenaOptions ArenaOptions() const;

  const EngineCase case_;
  HarnessOptions options_;
  // Both outlive the pool, which outlives the engine.
  std::optional<ArenaMemory> memory_;
  std::optional<MemoryJournal> journal_;
  std::unique_ptr<pmem::Pool> pool_;
  std::unique_ptr<Engine> engine_;
  RecoveryReport recovery_;
};

}  // namespace lodgekv::test
