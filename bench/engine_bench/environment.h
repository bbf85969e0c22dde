// Where a figure was measured: a figure without it means nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lodgekv::bench {

using Rows = std::vector<std::pair<std::string, std::string>>;

// Processor, memory, kernel, huge pages, compiler, build.
Rows DescribeEnvironment();

// What makes times of this build or machine worth little; empty when nothing does.
std::vector<std::string> EnvironmentWarnings();

// Whether /proc/cpuinfo lists the flag.
bool ProcessorHasFlag(const std::string& flag);

}  // namespace lodgekv::bench
