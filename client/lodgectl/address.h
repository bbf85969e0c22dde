// Addresses as they are given on the command line.
#pragma once

#include <string>
#include <string_view>

namespace lodgekv::lodgectl {

// The address with the port of `usual` if it has none: localhost, 10.0.0.1, ::1, [::1], and
// "localhost:" or "[::1]:". An address with a scheme of its own (unix:/path, dns:///host) is
// unchanged.
std::string WithPort(const std::string& address, std::string_view usual);

// Whether the address has a port number that is none. gRPC would connect to the port that its lower
// 16 bits are.
bool HasImpossiblePort(std::string_view address);

}  // namespace lodgekv::lodgectl
