// A process is killed: every store that it made is seen by the next one, flushed or not. Then the
// power is cut: what was not flushed is gone after all. What recovery has believed in between must
// stay. The explorer's lives begin with what is durable, and cannot show that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/crash/lab/tracer.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

struct KillThenCut {
  uint64_t kills = 0;
  uint64_t images = 0;
  std::optional<std::string> problem;  // of the first image that is wrong
};

// Kills at every fence of a short run, and cuts the power at every fence of the recovery and at its
// end. Ends with the first problem.
KillThenCut RunKillThenCutScenario(const EngineCase& engine_case, CrashModel model, Fault fault);

}  // namespace lodgekv::test
