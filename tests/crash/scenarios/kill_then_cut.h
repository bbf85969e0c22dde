// A process is killed: its successor sees all its stores, flushed or not. Then the power is cut:
// what was not flushed is lost after all. What recovery relied on in between must stay. The
// explorer's runs begin with durable content only and cannot show that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tests/crash/lab/tracer.h"
#include "tests/support/engine_case.h"

namespace lodgekv::test {

struct KillThenCut {
  uint64_t kills = 0;
  uint64_t images = 0;
  std::optional<std::string> problem;  // of the first wrong image
};

// Kills at every fence of a short run, and cuts the power at every fence of the recovery. Then, by
// turns, either everything is read and the power is cut, before a clean close and after it; or only
// the keys of the operation that was cut short are read, further writes follow, and the power is
// cut at every fence of those: what recovery leaves to a first touch is not touched by reading it
// all. Stops at the first problem. `given` overrides options of the case.
KillThenCut RunKillThenCutScenario(const EngineCase& engine_case, CrashModel model, Fault fault,
                                   const std::map<std::string, std::string>& given = {});

}  // namespace lodgekv::test
