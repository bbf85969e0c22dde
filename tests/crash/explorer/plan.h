// The runs for an engine: workloads and sizes, the same for every engine of the registry.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/crash/explorer/explorer.h"

namespace lodgekv::test {

// The engines of the registry that survive a restart.
std::vector<const EngineInfo*> AllPersistentEngines();

// Whether the medium of a run has fences that wait for a disk. With torn words both kinds occur:
// half of the runs of each workload have long fences, chosen by the seed.
bool DrawLongFences(const EngineCase& engine_case, CrashModel model, std::string_view workload,
                    uint64_t run);

// The number of runs of each workload, and how closely each is checked.
struct Effort {
  unsigned runs = 1;
  unsigned exhaustive_up_to = 48;
  unsigned samples = 8;
  unsigned continue_one_in = 150;
};

// All runs for one engine in one key format under one model. The first run of each workload uses
// the sizes of the case, the others draw theirs.
std::vector<ExplorerOptions> PlanRuns(const EngineCase& engine_case, CrashModel model,
                                      const Effort& effort);

}  // namespace lodgekv::test
