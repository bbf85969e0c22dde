// A bulk load that is cut: until the pool has an engine nothing of the load is there and its space
// is free, from then on all of it is; and all of it is durable when the load returns. (The
// explorer's pools are created before its first image, and loaded by writes.)
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
  uint64_t without_engine = 0;         // of these: the load had not happened
  std::optional<std::string> problem;  // of the first image that is wrong
  std::set<std::string, std::less<>> crash_points;
};

// Loads pools of several sizes and fills, writes to them a little, and cuts the power at every
// fence. Ends with the first problem. The engine has a bulk load.
BulkLoadOutcome RunBulkLoadScenario(const EngineCase& engine_case, CrashModel model, Fault fault);

}  // namespace lodgekv::test
