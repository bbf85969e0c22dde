#include "tests/crash/canaries.h"

#include "tests/engines/engine_rows.h"
#include "tests/engines/faults.h"

namespace lodgekv::test {
namespace {

constexpr Canary PoolRow(std::string_view name, std::string_view group, Bugs bugs, Fault fault) {
  return {name, group, bugs, fault, Under::kBoth, In::kAny, By::kPool};
}

constexpr Canary kPool[] = {
    PoolRow("identity before the rest", "pool creation", Bc(7), Ask("pmem.create.identity_first")),
    PoolRow("slot not flushed", "pool state", Bc(1), Forget("pmem.state.1")),
    PoolRow("slot not fenced before the word", "pool state", Bc(3), DropFence("pmem.state.1")),
    PoolRow("written over the slot that counts", "pool state", Bc(4, 7),
            Ask("pmem.state.in_place")),
    PoolRow("word not flushed", "pool state", Bc(1), Forget("pmem.state.2")),
    PoolRow("word not fenced", "pool state", Bc(2), DropFence("pmem.state.2")),
    PoolRow("class not flushed", "chunk table", Bc(1), Forget("pmem.chunk.1")),
    PoolRow("class not fenced", "chunk table", Bc(2), DropFence("pmem.chunk.1")),
    PoolRow("checksums of chunks not flushed", "pool seal", Bc(1), Forget("pmem.seal.1")),
    PoolRow("seal stays while the state changes", "pool seal", Bc(3),
            Ask("pmem.state.stays_sealed")),
    PoolRow("numbers handed out again after a crash", "sequence", Bc(24),
            Ask("pmem.sequence.not_durable")),
};

}  // namespace

std::span<const Canary> CanariesOf(std::string_view engine) {
  const EngineRows* rows = RowsOf(engine);
  return rows != nullptr ? rows->canaries : std::span<const Canary>();
}

std::span<const Canary> ScheduleCanariesOf(std::string_view engine) {
  const EngineRows* rows = RowsOf(engine);
  return rows != nullptr ? rows->schedule_canaries : std::span<const Canary>();
}

std::span<const Canary> PoolCanaries() { return kPool; }

}  // namespace lodgekv::test
