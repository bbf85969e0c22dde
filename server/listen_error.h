// Why an address could not be bound, in words: the libraries that bind it do not say.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lodgekv::server {

// `field` is the configuration's, `address` its value, which a server has just failed to bind.
absl::Status CannotListen(std::string_view field, const std::string& address);

}  // namespace lodgekv::server
