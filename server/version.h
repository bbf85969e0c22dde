// The version of this build: the build system's, major.minor.patch.
#pragma once

namespace lodgekv::server {

extern const char* const kVersion;

}  // namespace lodgekv::server
