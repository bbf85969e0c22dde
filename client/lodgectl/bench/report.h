// What a run of `lodgectl bench` measured, as a table and as JSON.
#pragma once

#include <string>

#include "client/lodgectl/bench/plan.h"
#include "client/lodgectl/bench/run.h"

namespace lodgekv::lodgectl {

std::string FormatBenchTable(const BenchPlan& plan, const BenchResult& result);

// One object; times of calls in microseconds. Fields are never left out; those that a workload
// does not have are null.
std::string FormatBenchJson(const BenchPlan& plan, const std::string& server,
                            const BenchResult& result);

}  // namespace lodgekv::lodgectl
