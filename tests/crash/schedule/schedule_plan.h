// The programs run on each engine under the scheduler, the same for every engine of the registry.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/crash/schedule/schedule_explorer.h"

namespace lodgekv::test {

struct PlannedPrograms {
  ProgramMixture mixture;
  uint64_t programs = 0;
  ScheduleExplorer::Plan plan;
};

// Cases with small nodes, if the engine has any.
std::vector<EngineCase> ScheduleCases();

// For one engine in one key format.
std::vector<PlannedPrograms> PlanPrograms(const EngineCase& engine_case);

}  // namespace lodgekv::test
