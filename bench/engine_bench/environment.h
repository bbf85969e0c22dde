// The environment of a measurement: figures are meaningless without it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lodgekv::bench {

using Rows = std::vector<std::pair<std::string, std::string>>;

// Processor, memory, kernel, huge pages, compiler, build.
Rows DescribeEnvironment();

// Reasons why times of this build or machine are unreliable; empty if there are none.
std::vector<std::string> EnvironmentWarnings();

// Whether /proc/cpuinfo lists the flag.
bool ProcessorHasFlag(const std::string& flag);

}  // namespace lodgekv::bench
