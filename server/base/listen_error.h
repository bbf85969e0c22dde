// Whether an address can be bound, and why not, in words.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lodgekv::server {

// True when another process accepts connections at unix:/path. Unlike with a port, binding would
// silently take over the path.
bool UnixSocketInUse(const std::string& address);

inline constexpr std::string_view kUnixPathRefused =
    "the path is not writable, or longer than 107 bytes";

// The message for bind's errno.
std::string BindErrorText(int error);

// `field` is the configuration's, `address` its value.
absl::Status ListenError(std::string_view field, const std::string& address, std::string_view why);

}  // namespace lodgekv::server
