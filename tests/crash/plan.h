// The runs that an engine is given: workloads and sizes, the same for every engine of the registry.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/crash/explorer.h"

namespace lodgekv::test {

// The engines of the registry that survive a restart.
std::vector<const EngineInfo*> AllPersistentEngines();

// How many runs of each workload, and how closely each is looked at.
struct Effort {
  unsigned runs = 1;
  unsigned exhaustive_up_to = 48;
  unsigned samples = 8;
  unsigned live_on_one_in = 150;
};

// All runs for one engine in one key format under one model. The first of each workload has the
// sizes of the case, the others draw theirs.
std::vector<ExplorerOptions> PlanRuns(const EngineCase& engine_case, CrashModel model,
                                      const Effort& effort);

}  // namespace lodgekv::test
