// A bulk load that is interrupted: until the pool has an engine nothing of the load is visible and
// its space is free; after that all of it is there. All of it is durable when the load returns.
// (The explorer's pools are created before its first image, and loaded by writes.)
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "tests/crash/lab/tracer.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

struct BulkLoadOutcome {
  uint64_t images = 0;
  uint64_t without_engine = 0;         // of these: the load has not taken effect
  std::optional<std::string> problem;  // of the first wrong image
  std::set<std::string, std::less<>> crash_points;
};

// Loads pools of several sizes and fills, writes a few pairs to them, and cuts the power at every
// fence. Stops at the first problem. The engine must have a bulk load.
BulkLoadOutcome RunBulkLoadScenario(const EngineCase& engine_case, CrashModel model, Fault fault);

}  // namespace lodgekv::test
