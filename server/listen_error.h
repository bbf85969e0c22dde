// Whether and why an address cannot be bound, in words: the libraries that bind it do not say.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lodgekv::server {

// True when another process answers at unix:/path. Binding would take the path away from it
// silently, unlike a port.
bool UnixSocketInUse(const std::string& address);

// `field` is the configuration's, `address` its value, which a server has just failed to bind.
absl::Status CannotListen(std::string_view field, const std::string& address);

}  // namespace lodgekv::server
