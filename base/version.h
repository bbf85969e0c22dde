// Version and build information.
#pragma once

#include <string>

namespace lodgekv {

extern const char* const kVersion;  // the build system's, major.minor.patch

// "0.1.0 (commit 0123456789ab, Release, GCC 12.2.0)".
std::string DescribeBuild();

}  // namespace lodgekv
