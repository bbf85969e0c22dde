// Addresses as they are given on the command line.
#pragma once

#include <string>
#include <string_view>

namespace lodgekv::lodgectl {

// The address with the port of `usual` where it has none: localhost, 10.0.0.1, ::1, [::1] and
// "localhost:". What names a way of its own (unix:/path, dns:///host) stays as it is.
std::string WithPort(const std::string& address, std::string_view usual);

}  // namespace lodgekv::lodgectl
