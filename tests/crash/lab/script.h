// A record of what the explorer did, for repeating it without the search: the steps of each run
// between two crashes, and the crash that ended it. Its text fits into an environment variable.
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
  uint64_t worker = 0;  // the thread
};

// How much survives of each line that was not durable; see ImageSet.
using KeptOfLines = std::map<uint32_t, std::vector<uint16_t>>;

struct CrashAt {
  bool happens = false;
  // The fence of the run's last step (from 1; of recovery, if no step was taken) before which the
  // crash happens. 0: after the step.
  uint64_t fence = 0;
  KeptOfLines kept;
};

struct ScriptRun {
  uint64_t worker = 0;  // the thread that opens the pool
  std::vector<TakenStep> steps;
  // In the last run: the image that is checked. If no crash happens, the running engine is checked.
  CrashAt crash;
};
using Script = std::vector<ScriptRun>;

std::string ScriptText(const Script& script);
// Throws std::invalid_argument that names the invalid part.
Script ParseScript(std::string_view text);
// Human-readable.
std::string DescribeScript(const Script& script);
uint64_t StepsOf(const Script& script);

}  // namespace lodgekv::test
