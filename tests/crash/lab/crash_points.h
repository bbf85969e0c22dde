// The names that the sources give to crash points and to canaries.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace lodgekv::test {

struct NamesInSources {
  std::set<std::string, std::less<>> crash_points;
  std::set<std::string, std::less<>> canaries;
};

// Reads every .h and .cc below `folder`, that of the engines, but tests, and engines that this
// build does not register.
NamesInSources ReadNames(const std::filesystem::path& folder);

}  // namespace lodgekv::test
