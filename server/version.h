// The version of this build; the build system defines it.
#pragma once

namespace lodgekv::server {

inline constexpr const char* kVersion = LODGEKV_VERSION;

}  // namespace lodgekv::server
