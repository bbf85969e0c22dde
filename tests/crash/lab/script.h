// What a run has done, so that it can be done again without the search: the steps of each life, and
// the crash that ended it. As text it fits into an environment variable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/crash/lab/workload.h"

namespace lodgekv::test {

struct TakenStep {
  Step step;
  uint64_t hand = 0;  // the thread
};

// Of each line that was not durable, how much of it survives; see ImageSet.
using KeptOfLines = std::map<uint32_t, std::vector<uint16_t>>;

struct CrashAt {
  bool happens = false;
  // Before which fence of the life's last step, from 1 on; of recovery, if no step was taken. 0: at
  // its end.
  uint64_t fence = 0;
  KeptOfLines kept;
};

struct ScriptLife {
  uint64_t hand = 0;  // the thread that opens the pool
  std::vector<TakenStep> steps;
  // Of the last life: what is looked at. None: the living engine is.
  CrashAt crash;
};
using Script = std::vector<ScriptLife>;

std::string ScriptText(const Script& script);
// Throws std::invalid_argument with the part that is none.
Script ParseScript(std::string_view text);
// For a person.
std::string DescribeScript(const Script& script);
uint64_t StepsOf(const Script& script);

}  // namespace lodgekv::test
