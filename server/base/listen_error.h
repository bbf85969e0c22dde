// Whether and why an address cannot be bound, in words.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lodgekv::server {

// True when another process answers at unix:/path. Binding would take the path away from it
// silently, unlike a port.
bool UnixSocketInUse(const std::string& address);

inline constexpr std::string_view kUnixPathRefused =
    "the path is not writable, or longer than 107 bytes";

// Of bind's errno.
std::string BindErrorText(int error);

// `field` is the configuration's, `address` its value.
absl::Status ListenError(std::string_view field, const std::string& address, std::string_view why);

}  // namespace lodgekv::server
