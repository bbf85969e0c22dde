// Large arrays in two generations (index/node/two_generations.h), whatever tree has them: some are
// staged and committed, or dropped, while other space comes and goes. In every image the generation
// before the call or the one behind it is found, whole, and nothing else takes space; and so it is
// when the process was killed, another has begun to recover, and the power is cut then.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "tests/crash/lab/tracer.h"

namespace lodgekv::test {

struct GenerationsOutcome {
  uint64_t images = 0;
  uint64_t kills = 0;
  std::set<std::string, std::less<>> crash_points;
  std::optional<std::string> problem;  // the first image that breaks a promise
};

GenerationsOutcome RunGenerationsScenario(CrashModel model, Fault fault);

}  // namespace lodgekv::test
