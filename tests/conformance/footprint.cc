#include "tests/conformance/footprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "index/node/epoch.h"
#include "index/node/scan_steps.h"
#include "tests/support/engine_calls.h"

namespace lodgekv::test {

namespace {

// Tolerance for variation: a node half full here, one more log there.
constexpr double kMayGrow = 1.2;
constexpr uint64_t kUnderWay = uint64_t{128} << 10;
// In chunks, too, that a few units keep from being free: SPTree keeps up to 256 leaves of 1,280
// bytes for the backup of its top layer.
constexpr uint64_t kScattered = uint64_t{384} << 10;

void LetReclaimAll(Engine& engine) {
  constexpr int kQuiet = 100;
  uint64_t least = UINT64_MAX;
  for (int quiet = 0; quiet < kQuiet; ++quiet) {
    const uint64_t medium = engine.GetMemoryUse().medium_bytes;
    if (medium < least) quiet = 0;
    least = std::min(least, medium);
    LetReclaim();
  }
}

uint64_t StepsToFirstKey(Engine& engine) {
  uint64_t most = 0;
  for (const bool reverse : {false, true}) {
    const uint64_t before = scanned_leaves;
    EXPECT_EQ(ScanAll(engine, {.reverse = reverse, .limit = 1}).size(), 1u);
    most = std::max(most, scanned_leaves - before);
  }
  return most;
}

}  // namespace

void LetReclaim() {
  WaitForEpochs();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Footprint FootprintOf(EngineHarness& harness) {
  Engine& engine = harness.engine();
  LetReclaimAll(engine);
  Footprint footprint{};
  const MemoryUse use = engine.GetMemoryUse();
  footprint.dram = use.dram_bytes;
  footprint.medium = use.medium_bytes;
  footprint.chunks = harness.pool()->allocated_bytes();
  engine.VisitCounters([&](const CounterSample& counter) {
    const std::string name(counter.name);
    if (name == "leaves" || name.ends_with("_nodes")) footprint.nodes[name] = counter.value;
  });
  footprint.steps = StepsToFirstKey(engine);
  return footprint;
}

Footprint LargerOf(const Footprint& one, const Footprint& other) {
  Footprint larger{std::max(one.dram, other.dram), std::max(one.medium, other.medium),
                   std::max(one.chunks, other.chunks), one.nodes, std::max(one.steps, other.steps)};
  for (const auto& [name, value] : other.nodes) {
    double& known = larger.nodes[name];
    known = std::max(known, value);
  }
  return larger;
}

void ExpectNoGrowth(const Footprint& first, const Footprint& now) {
  EXPECT_LE(now.dram, first.dram * kMayGrow + kUnderWay);
  EXPECT_LE(now.medium, first.medium * kMayGrow + kUnderWay);
  EXPECT_LE(now.chunks, first.chunks * kMayGrow + kUnderWay + kScattered);
  // A few nodes more or less depend on where the separators are.
  for (const auto& [name, value] : first.nodes) {
    EXPECT_LE(now.nodes.at(name), value * kMayGrow + 2) << name;
  }
  // The leftmost leaf is never removed and may be empty, and so may one that waits to be merged.
  EXPECT_LE(now.steps, first.steps + 2);
}

}  // namespace lodgekv::test
